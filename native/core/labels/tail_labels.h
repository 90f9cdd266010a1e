// The labels of label_tail while they grow level by level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/parallel.h"
#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/groups.h"

namespace dhilgt {

using TailLabels = GroupedLabels<std::uint32_t>;  // hubs found here

inline constexpr std::uint32_t kNoSegment = 0xFFFFFFFFu;

// Entries of one node at one distance, in a linked list by ascending distance.
struct TailSegment {
  const Node* hubs;
  std::uint32_t count;
  Distance distance;
  std::uint32_t next;  // index of the node's next segment, or kNoSegment
};

// Stores copies of arrays at addresses that never change.
class Arena {
 public:
  explicit Arena(Control& control) : control_(control) {}

  const Node* store(const Node* values, std::size_t count) {
    if (blocks_.empty() || blocks_.back().size() + count > blocks_.back().capacity()) {
      if (!blocks_.empty() && block_size_ < kLargestBlock) block_size_ *= 2;
      blocks_.emplace_back(&control_);
      blocks_.back().reserve_more(std::max(count, block_size_));
    }
    blocks_.back().append(values, count);
    return blocks_.back().end() - count;
  }

 private:
  static constexpr std::size_t kLargestBlock = 1 << 18;
  Control& control_;
  std::size_t block_size_ = 1 << 10;
  std::vector<Buffer<Node>> blocks_;
};

// New entries of one node.
struct NewEntries {
  Node node;
  std::uint32_t count;
  const Node* hubs;
};

// The hubs that a node found in the previous level.
struct FoundHubs {
  const Node* hubs;
  std::uint32_t count;
};

// One direction of the labels. Most entries are settled: those of a node are contiguous in memory.
// Entries of the last levels stay in linked lists ("chained") until there are enough of them to be
// copied. Arrays per tail node are indexed by rank - first_hub. `Top` are the labels of the better hubs as
// groups, `Settled` the settled ones: in memory (GroupedLabels) or mapped (PlacedRows).
template <class Top, class Settled = TailLabels>
struct Side {
  const ArcsView pull;   // the neighbours a node takes candidates from
  const ArcsView push;   // the neighbours that take candidates from a node
  const Node first_hub;  // the first that is not in `top`
  Top top;
  Settled settled;
  Buffer<TailSegment> chains;
  Buffer<std::uint32_t> first_chained;  // per tail node
  Buffer<std::uint32_t> last_chained;   // per tail node
  std::uint64_t num_settled = 0;        // entries
  std::uint64_t num_chained = 0;        // entries

  Buffer<FoundHubs> frontier;   // per tail node
  Buffer<Node> frontier_nodes;  // the nodes that have any

  Side(const ArcsView& pull_arcs, const ArcsView& push_arcs, Node first_tail_hub, Node tail_nodes,
       Top top_labels, Control& control)
      : pull(pull_arcs),
        push(push_arcs),
        first_hub(first_tail_hub),
        top(std::move(top_labels)),
        settled(tail_nodes, control),
        chains(&control),
        first_chained(&control),
        last_chained(&control),
        frontier(&control),
        frontier_nodes(&control) {
    first_chained.assign(tail_nodes, kNoSegment);
    last_chained.assign(tail_nodes, kNoSegment);
    frontier.assign(tail_nodes, {nullptr, 0});
  }

  // Calls visit(distance, hubs) for the entries of a tail node, by ascending distance.
  template <class Visit>
  void each_entry(Node at, Visit&& visit) const {
    each_group(settled.of(at), visit);
    each_chained(at, [&](const TailSegment& segment) { visit(segment.distance, std::span(segment.hubs, segment.count)); });
  }

  // Calls visit(segment) for the chained segments of a tail node.
  template <class Visit>
  void each_chained(Node at, Visit&& visit) const {
    if (num_chained == 0) return;  // the usual case; avoids a cache miss
    for (std::uint32_t i = first_chained[at]; i != kNoSegment; i = chains[i].next) visit(chains[i]);
  }

  // Appends new entries of one node and makes them part of the frontier.
  void add(const NewEntries& added, Distance distance) {
    const Node at = added.node - first_hub;
    const auto index = static_cast<std::uint32_t>(chains.size());
    chains.push_back({added.hubs, added.count, distance, kNoSegment});
    if (last_chained[at] == kNoSegment) {
      first_chained[at] = index;
    } else {
      chains[last_chained[at]].next = index;
    }
    last_chained[at] = index;
    num_chained += added.count;
    make_frontier(added);
  }

  void make_frontier(const NewEntries& added) {
    frontier[added.node - first_hub] = {added.hubs, added.count};
    frontier_nodes.push_back(added.node);
  }

  // Forgets the chained entries, which are settled elsewhere.
  void drop_chained() {
    std::fill(first_chained.begin(), first_chained.end(), kNoSegment);
    std::fill(last_chained.begin(), last_chained.end(), kNoSegment);
    chains.resize(0);
    num_chained = 0;
  }

  void clear_frontier() {
    for (const Node node : frontier_nodes) frontier[node - first_hub].count = 0;
    frontier_nodes.resize(0);
  }

  // Copies the chained entries into the settled labels, piece by piece. The arrays that the frontier
  // points to stay in their arenas.
  void settle(unsigned threads, Control& control) {
    const auto nodes = static_cast<Node>(first_chained.size());
    Settled next(nodes, control);
    parallel_for(threads, num_pieces(nodes), 1, control, [&](unsigned, std::size_t piece, std::size_t) {
      const auto begin = static_cast<Node>(piece * kPieceNodes);
      const Node end = std::min<Node>(nodes, begin + kPieceNodes);
      for (Node at = begin; at < end; ++at) {
        std::size_t groups = settled.of(at).size() / kGroupWords;
        each_chained(at, [&](const TailSegment& segment) { groups += groups_for(segment.count); });
        next.set_groups(at, groups);
      }
      next.place_piece(piece);
      for (Node at = begin; at < end; ++at) {
        const std::span<const Node> before = settled.of(at);
        Node* words = next.writable(at);
        std::copy(before.begin(), before.end(), words);
        GroupWriter<Node> writer(words + before.size());
        each_chained(at, [&](const TailSegment& segment) {
          for (std::uint32_t i = 0; i < segment.count; ++i) writer.add(segment.distance, segment.hubs[i]);
        });
        first_chained[at] = last_chained[at] = kNoSegment;
      }
      settled.free_piece(piece);
    });
    settled = std::move(next);
    chains.resize(0);
    num_settled += num_chained;
    num_chained = 0;
  }
};

}  // namespace dhilgt
