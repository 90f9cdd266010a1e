// The label entries of one hub, found from the graph and a table of the best hubs alone.
//
// A breadth-first search from the hub h. A node v reached at depth d is dropped, and not searched from, if
// the table says that some top hub t has d(h, t) + d(t, v) <= d. Otherwise v is flagged if it outranks h
// or was reached from a flagged node; the nodes that are not flagged are the holders of h. Flagged nodes
// are searched from, as their flag must reach the nodes behind them, until a level has only flagged ones.
//
// Why this is exact, for any number of top hubs: if a top hub lies on any shortest path from h to v, so
// does the best ranked node of all these paths, a top hub too, which by definition both h and v have in
// their labels: v is dropped, even where another path of the same length avoids the dropped nodes. If
// none does, no node of these paths is dropped, v is reached at its distance, over all of them, and is
// flagged exactly if one of their nodes outranks h. (A radius r cuts no entry that decides this: both
// entries are at most d <= r long.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/pack.h"
#include "labels/tail_examiner.h"
#include "labels/top_view.h"

namespace dhilgt {

// The table, from both ends of a search. Searching along the arcs, `near` holds the hubs that a node
// reaches and `far` those that reach it; searching against them, the other way round.
template <class Word>
struct TopTable {
  Node num_hubs = 0;          // ranks below this
  Distance max_distance = 0;  // in the table
  TopView<Word> near;
  TopView<Word> far;
};

// Working memory of one worker. `Mark` must hold 2 * top.max_distance + 2.
template <class Mark, class Word>
class HubSearcher {
 public:
  static constexpr Mark kNotAHub = std::numeric_limits<Mark>::max();

  HubSearcher(Node num_nodes, const TopTable<Word>& top, Control& control)
      : top_(top), farthest_(2 * top.max_distance + 1), marks_(&control), seen_(&control), clean_(&control),
        flagged_(&control), reached_(&control) {
    marks_.assign(top.num_hubs, kNotAHub);
    seen_.assign(num_nodes, 0);
  }

  // Finds the holders of `hub` up to distance `radius`, itself first.
  void find(const ArcsView& arcs, Node hub, Distance radius, DecodedLabel& out, Control& control) {
    out.hubs.assign(1, hub);
    out.segments.assign(1, {0, 1});
    mark(hub, [](Distance distance) { return static_cast<Mark>(distance); });
    clean_.resize(0);
    clean_.push_back(hub);
    flagged_.resize(0);
    reached_.resize(0);
    reached_.push_back(hub);
    seen_[hub] = 1;
    for (Distance depth = 1; !clean_.empty() && depth <= radius; ++depth) {
      control.check();
      const std::size_t begin = reached_.size();
      expand(arcs, flagged_);
      const std::size_t flagged_end = reached_.size();
      expand(arcs, clean_);
      sort_out(hub, depth, begin, flagged_end);
      if (clean_.empty()) break;
      std::sort(clean_.begin(), clean_.end());
      out.hubs.insert(out.hubs.end(), clean_.begin(), clean_.end());
      out.segments.push_back({depth, static_cast<Node>(out.hubs.size())});
    }
    for (const Node node : reached_) seen_[node] = 0;
    mark(hub, [](Distance) { return kNotAHub; });
  }

  std::uint64_t num_arcs() const { return num_arcs_; }
  std::uint64_t num_tests() const { return num_tests_; }

 private:
  static constexpr std::size_t kLookahead = 6;  // nodes

  template <class Value>
  void mark(Node hub, Value&& value) {
    if (top_.num_hubs == 0) return;
    each_group(top_.near.of(hub), [&](Distance distance, auto hubs) {
      for (const auto one : hubs) marks_[one] = value(distance);
    });
  }

  // Top hubs are dropped at once. Neighbours ascend, so they are the first ones.
  void expand(const ArcsView& arcs, const Buffer<Node>& from) {
    for (const Node node : from) {
      const std::span<const Node> neighbours = arcs.of(node);
      for (std::size_t i = neighbours.size(); i-- > 0 && neighbours[i] >= top_.num_hubs;) {
        ++num_arcs_;
        const Node next = neighbours[i];
        if (seen_[next]) continue;
        seen_[next] = 1;
        reached_.push_back(next);
        if (top_.num_hubs > 0) top_.far.prefetch_place(next);
      }
    }
  }

  // Divides the nodes reached from position `begin` on into clean and flagged ones.
  void sort_out(Node hub, Distance depth, std::size_t begin, std::size_t flagged_end) {
    clean_.resize(0);
    flagged_.resize(0);
    // No two entries of the table add up to more, so beyond it every shared hub is near enough.
    const Distance limit = std::min(depth, farthest_);
    for (std::size_t i = begin; i < reached_.size(); ++i) {
      const Node node = reached_[i];
      if (top_.num_hubs > 0) {
        if (i + kLookahead < reached_.size()) top_.far.prefetch(reached_[i + kLookahead]);
        ++num_tests_;
        if (any_within(top_.far.of(node), marks_.data(), limit)) continue;
      }
      (i < flagged_end || node < hub ? flagged_ : clean_).push_back(node);
    }
  }

  const TopTable<Word>& top_;
  const Distance farthest_;
  Buffer<Mark> marks_;  // by top hub: its distance from the hub searched from, or kNotAHub
  Buffer<std::uint8_t> seen_;
  Buffer<Node> clean_;    // the last level: holders,
  Buffer<Node> flagged_;  // and others
  Buffer<Node> reached_;  // in all levels, the flagged ones of each first
  std::uint64_t num_arcs_ = 0;
  std::uint64_t num_tests_ = 0;
};

}  // namespace dhilgt
