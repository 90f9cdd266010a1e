// Labels restricted to the best hubs, for pruning: groups as in groups.h, in arrays that may be mapped
// files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "labels/groups.h"

namespace dhilgt {

// A table with more hubs or longer distances has words of four bytes.
inline constexpr Node kMostShortHubs = 65024;
inline constexpr Distance kMostShortDistance = 65535;

// The rows of the nodes from `first` on.
template <class Word>
struct TopPart {
  Node first;
  std::span<const Offset> starts;  // one per node, and the end of the last, in groups
  std::span<const Word> words;     // kGroupWords per group
};

// All rows, in parts by ascending nodes.
template <class Word>
class TopView {
 public:
  TopView() = default;
  TopView(std::vector<TopPart<Word>> parts, Node num_nodes) : parts_(std::move(parts)) {
    parts_per_node_ = (parts_.size() << 32) / std::max<Node>(1, num_nodes);
    parts_.push_back({num_nodes, {}, {}});
  }

  std::span<const Word> of(Node node) const {
    const TopPart<Word>& part = part_of(node);
    const Offset* start = part.starts.data() + (node - part.first);
    return part.words.subspan(start[0] * kGroupWords, (start[1] - start[0]) * kGroupWords);
  }
  void prefetch_place(Node node) const {
    const TopPart<Word>& part = part_of(node);
    __builtin_prefetch(part.starts.data() + (node - part.first));
  }
  void prefetch(Node node) const { prefetch_groups(of(node)); }

 private:
  // Parts have about the same number of nodes, so that the first guess is right or nearly so.
  const TopPart<Word>& part_of(Node node) const {
    std::size_t part = static_cast<std::size_t>((std::uint64_t{node} * parts_per_node_) >> 32);
    while (node < parts_[part].first) --part;
    while (node >= parts_[part + 1].first) ++part;
    return parts_[part];
  }

  std::vector<TopPart<Word>> parts_;  // and one without rows after the last node
  std::uint64_t parts_per_node_ = 0;  // times 2^32
};

}  // namespace dhilgt
