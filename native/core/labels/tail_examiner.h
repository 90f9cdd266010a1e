// Finds the new hubs of one node in one level of label_tail.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/groups.h"
#include "labels/tail_labels.h"

namespace dhilgt {

// Does any hub w of the label `words` satisfy distance + marks[w] <= depth? Seven tests per branch:
// nearly all candidates tested are new hubs, so leaving a group early seldom pays.
template <class Word, class Mark>
bool any_within(std::span<const Word> words, const Mark* marks, Distance depth) {
  for (const Word *group = words.data(), *end = group + words.size(); group < end; group += kGroupWords) {
    if (group[0] >= depth) return false;  // groups ascend by distance
    const Mark limit = static_cast<Mark>(depth - group[0]);
    Mark nearest = marks[group[1]];
    for (std::size_t i = 2; i < kGroupWords; ++i) nearest = std::min(nearest, marks[group[i]]);
    if (nearest <= limit) return true;
  }
  return false;
}

// Working memory of one worker. `Mark` is a byte while distances fit: the table of marks is then small
// enough for the cache.
template <class Mark, class Side>
class Examiner {
 public:
  static constexpr Mark kNotAHub = std::numeric_limits<Mark>::max();
  static constexpr Mark kCandidate = kNotAHub - 1;
  static constexpr Distance kMaxDepth = kCandidate - 1;

  Examiner(Node num_nodes, Node first_hub, Control& control)
      : first_hub_(first_hub), marks_(&control), candidates_(&control) {
    marks_.assign(num_nodes, kNotAHub);
  }

  // Returns the new hubs of `node` at distance `depth`; valid until the next call.
  std::span<const Node> find(Node node, Distance depth, const Side& side, const Side& opposite) {
    collect_neighbour_hubs(node, side);
    if (neighbour_hubs_.empty()) return {};
    mark_label(node, side, [](Distance distance) { return static_cast<Mark>(distance); });
    candidates_.resize(0);
    for (const FoundHubs& list : neighbour_hubs_) {
      for (std::uint32_t i = 0; i < list.count && list.hubs[i] < node; ++i) {
        const Node hub = list.hubs[i];
        if (marks_[hub] == kNotAHub) {
          marks_[hub] = kCandidate;
          candidates_.push_back(hub);
          prefetch_place(hub, opposite);
        }
      }
    }
    const std::size_t first = std::min(kLookahead, candidates_.size());
    for (std::size_t i = 0; i < first; ++i) prefetch_label(candidates_[i], opposite);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (i + kLookahead < candidates_.size()) prefetch_label(candidates_[i + kLookahead], opposite);
      const Node hub = candidates_[i];
      const bool covered = is_covered(hub, depth, opposite);
      marks_[hub] = kNotAHub;
      if (!covered) candidates_[kept++] = hub;  // kept <= i: in place
    }
    mark_label(node, side, [](Distance) { return kNotAHub; });
    std::sort(candidates_.begin(), candidates_.begin() + kept);
    return {candidates_.data(), kept};
  }

 private:
  static constexpr std::size_t kLookahead = 6;  // candidates

  // The hubs that the neighbours found in the previous level. These arrays are scattered in memory, so
  // each step prefetches for all neighbours before the next step reads.
  void collect_neighbour_hubs(Node node, const Side& side) {
    const std::span<const Node> neighbours = tail_of(side.pull.of(node));
    for (const Node neighbour : neighbours) __builtin_prefetch(&side.frontier[neighbour - first_hub_]);
    neighbour_hubs_.clear();
    for (const Node neighbour : neighbours) {
      const FoundHubs& list = side.frontier[neighbour - first_hub_];
      if (list.count == 0) continue;
      __builtin_prefetch(list.hubs);
      neighbour_hubs_.push_back(list);
    }
    std::erase_if(neighbour_hubs_, [&](const FoundHubs& list) { return list.hubs[0] >= node; });
  }

  std::span<const Node> tail_of(std::span<const Node> neighbours) const {
    const auto from = std::lower_bound(neighbours.begin(), neighbours.end(), first_hub_);
    return neighbours.subspan(static_cast<std::size_t>(from - neighbours.begin()));
  }

  // Sets the mark of every known hub of a node to value(distance).
  template <class Value>
  void mark_label(Node node, const Side& side, Value&& value) {
    auto mark_group = [&](Distance distance, auto hubs) {
      for (const auto hub : hubs) marks_[hub] = value(distance);
    };
    if (first_hub_ > 0) each_group(side.top.of(node), mark_group);
    each_group(side.settled.of(node - first_hub_), mark_group);
    side.each_chained(node - first_hub_, [&](const TailSegment& segment) {
      mark_group(segment.distance, std::span(segment.hubs, segment.count));
    });
  }

  // Is there a better hub w with d(hub, w) + d(w, node) <= depth?
  bool is_covered(Node hub, Distance depth, const Side& opposite) const {
    if (first_hub_ > 0 && any_within(opposite.top.of(hub), marks_.data(), depth)) return true;
    if (any_within(opposite.settled.of(hub - first_hub_), marks_.data(), depth)) return true;
    bool covered = false;
    opposite.each_chained(hub - first_hub_, [&](const TailSegment& segment) {
      for (std::uint32_t i = 0; i < segment.count && segment.distance < depth; ++i) {
        covered |= marks_[segment.hubs[i]] <= static_cast<Mark>(depth - segment.distance);
      }
    });
    return covered;
  }

  // Reading a label takes two dependent reads. The first, its place, is prefetched when a candidate is
  // collected; the label itself some candidates before it is tested.
  void prefetch_place(Node hub, const Side& opposite) const {
    if (first_hub_ > 0) opposite.top.prefetch_place(hub);
    opposite.settled.prefetch_place(hub - first_hub_);
  }
  void prefetch_label(Node hub, const Side& opposite) const {
    if (first_hub_ > 0) opposite.top.prefetch(hub);
    opposite.settled.prefetch(hub - first_hub_);
  }

  Node first_hub_;
  Buffer<Mark> marks_;  // by hub: distance from the node, kNotAHub or kCandidate
  std::vector<FoundHubs> neighbour_hubs_;
  Buffer<Node> candidates_;
};

}  // namespace dhilgt
