// Labels in a form that is fast to test against: groups of eight words, [distance, seven hubs].
//
// The groups of a node are contiguous, so a test reads memory in order, without bookkeeping per
// distance. Unused places of a group repeat its last hub, which does not change a test. Nodes are
// stored in pieces, which can be freed one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"

namespace dhilgt {

inline constexpr std::size_t kGroupWords = 8;
inline constexpr std::size_t kGroupHubs = kGroupWords - 1;

// Begins to load the first groups of a node: most tests end among them.
template <class Word>
void prefetch_groups(std::span<const Word> words) {
  const char* line = reinterpret_cast<const char*>(words.data());
  const std::size_t bytes = std::min<std::size_t>(words.size_bytes(), 512);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(line + i);
}

inline std::size_t groups_for(std::size_t hubs) { return (hubs + kGroupHubs - 1) / kGroupHubs; }

// `Word` has two bytes for the hubs of the planes, which are at most 65,024, and four for the others.
template <class Word>
class GroupedLabels {
 public:
  GroupedLabels() = default;
  GroupedLabels(Node num_nodes, Control& control)
      : places_(&control), pieces_(num_pieces(num_nodes)) {
    places_.assign(num_nodes, {0, 0});
    for (Buffer<Word>& piece : pieces_) piece = Buffer<Word>(&control);
  }

  std::span<const Word> of(Node node) const {
    const Place place = places_[node];
    return {pieces_[node / kPieceNodes].data() + std::size_t{place.first} * kGroupWords,
            std::size_t{place.count} * kGroupWords};
  }
  // Sets the number of groups of a node; once it is set for all nodes of a piece, call place_piece.
  void set_groups(Node node, std::size_t groups) {
    places_[node].count = static_cast<std::uint32_t>(groups);
  }
  // Allocates a piece.
  void place_piece(std::size_t piece) {
    std::size_t groups = 0;
    const std::size_t end = std::min<std::size_t>(places_.size(), (piece + 1) * kPieceNodes);
    for (std::size_t v = piece * kPieceNodes; v < end; ++v) {
      places_[v].first = static_cast<std::uint32_t>(groups);
      groups += places_[v].count;
    }
    if (groups > UINT32_MAX) throw std::length_error("labels of 2048 nodes exceed 2^32 groups");
    pieces_[piece].resize(groups * kGroupWords);
  }
  Word* writable(Node node) {
    return pieces_[node / kPieceNodes].data() + std::size_t{places_[node].first} * kGroupWords;
  }
  void free_piece(std::size_t piece) { pieces_[piece].clear(); }

  void prefetch_place(Node node) const { __builtin_prefetch(&places_[node]); }
  void prefetch(Node node) const { prefetch_groups(of(node)); }

 private:
  struct Place {
    std::uint32_t first;  // position of the first group within the piece
    std::uint32_t count;  // number of groups
  };
  Buffer<Place> places_;
  std::vector<Buffer<Word>> pieces_;
};

// Appends hubs, starting a new group when the distance changes or the group is full.
template <class Word>
class GroupWriter {
 public:
  explicit GroupWriter(Word* groups) : next_(groups) {}
  void add(Distance distance, Word hub) {
    if (filled_ == kGroupHubs || group_ == nullptr || group_[0] != static_cast<Word>(distance)) {
      group_ = next_;
      next_ += kGroupWords;
      group_[0] = static_cast<Word>(distance);
      for (std::size_t i = 1; i < kGroupWords; ++i) group_[i] = hub;
      filled_ = 1;
      return;
    }
    for (std::size_t i = ++filled_; i < kGroupWords; ++i) group_[i] = hub;
  }

 private:
  Word* group_ = nullptr;
  Word* next_;
  std::size_t filled_ = 0;
};

// Calls visit(distance, hubs) for every group, without the repeated hubs.
template <class Word, class Visit>
void each_group(std::span<const Word> words, Visit&& visit) {
  for (std::size_t i = 0; i < words.size(); i += kGroupWords) {
    std::size_t hubs = 1;
    while (hubs < kGroupHubs && words[i + 1 + hubs] != words[i + hubs]) ++hubs;
    visit(static_cast<Distance>(words[i]), words.subspan(i + 1, hubs));
  }
}

}  // namespace dhilgt
