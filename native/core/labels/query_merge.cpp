#include "labels/query_merge.h"

#include <algorithm>
#include <utility>

#include "base/parallel.h"

namespace dhilgt {

MergeIndex::MergeIndex(const LabelSet& labels)
    : offsets_(labels.entry_offsets.begin(), labels.entry_offsets.end()) {
  hubs_.reserve(labels.num_entries());
  distances_.reserve(labels.num_entries());
  std::vector<std::pair<Node, Distance>> label;
  for (Node node = 0; node < labels.num_nodes(); ++node) {
    label.clear();
    labels.of(node).each_segment([&](Distance distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) label.emplace_back(hub, distance);
    });
    std::sort(label.begin(), label.end());
    for (const auto& [hub, distance] : label) {
      hubs_.push_back(hub);
      distances_.push_back(distance);
    }
  }
}

Distance MergeIndex::distance(Node left, Node right) const {
  Offset i = offsets_[left];
  Offset j = offsets_[right];
  const Offset left_end = offsets_[left + 1];
  const Offset right_end = offsets_[right + 1];
  Distance best = kUnreachable;
  while (i < left_end && j < right_end) {
    if (hubs_[i] < hubs_[j]) {
      ++i;
    } else if (hubs_[i] > hubs_[j]) {
      ++j;
    } else {
      best = std::min(best, distances_[i++] + distances_[j++]);
    }
  }
  return best;
}

void MergeIndex::answer(std::span<const Node> left, std::span<const Node> right,
                        std::span<Distance> distances, unsigned threads, Control& control) const {
  parallel_for(threads, left.size(), 256, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) distances[i] = distance(left[i], right[i]);
  });
}

}  // namespace dhilgt
