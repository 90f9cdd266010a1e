#include "labels/gather.h"

#include <algorithm>

#include "base/parallel.h"

namespace dhilgt {

void sum_up(Buffer<Offset>& offsets) {
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
}

namespace {

// Calls visit(distance, first_hub, nodes, counts, local_hubs) for every (distance, block) with entries in the piece.
template <class Visit>
void each_run(const std::vector<PlaneBlock>& blocks, Distance num_levels, std::size_t pieces,
              std::size_t piece, Visit&& visit) {
  for (Distance distance = 1; distance <= num_levels; ++distance) {
    for (const PlaneBlock& block : blocks) {
      if (distance > block.num_levels) continue;
      const std::size_t at = (distance - 1) * pieces + piece;
      const PlaneBlock::Mark from = at == 0 ? PlaneBlock::Mark{0, 0} : block.marks[at - 1];
      const std::size_t count = block.marks[at].nodes_end - from.nodes_end;
      if (count == 0) continue;
      visit(distance, block.first_hub, std::span(block.nodes.data() + from.nodes_end, count),
            block.counts.data() + from.nodes_end, block.local_hubs.data() + from.hubs_end);
    }
  }
}

Distance most_levels(const std::vector<PlaneBlock>& blocks) {
  Distance levels = 0;
  for (const PlaneBlock& block : blocks) levels = std::max(levels, block.num_levels);
  return levels;
}

}  // namespace

LabelSet gather_labels(Node num_nodes, const std::vector<PlaneBlock>& blocks, unsigned threads,
                       Control& control) {
  const std::size_t pieces = num_pieces(num_nodes);
  const Distance num_levels = most_levels(blocks);
  LabelSet set(num_nodes, control);
  set.entry_offsets[0] = set.segment_offsets[0] = 0;
  parallel_for(threads, pieces, 1, control, [&](unsigned, std::size_t piece, std::size_t) {
    const std::size_t begin = piece * kPieceNodes;
    const std::size_t end = std::min<std::size_t>(num_nodes, begin + kPieceNodes);
    Distance last_distance[kPieceNodes] = {};
    for (std::size_t v = begin; v < end; ++v) {
      set.entry_offsets[v + 1] = set.segment_offsets[v + 1] = 1;
    }
    each_run(blocks, num_levels, pieces, piece,
             [&](Distance distance, Node, std::span<const Node> nodes, const std::uint16_t* counts,
                 const std::uint16_t*) {
               for (std::size_t i = 0; i < nodes.size(); ++i) {
                 set.entry_offsets[nodes[i] + 1] += counts[i];
                 Distance& last = last_distance[nodes[i] - begin];
                 set.segment_offsets[nodes[i] + 1] += last != distance;
                 last = distance;
               }
             });
  });
  sum_up(set.entry_offsets);
  sum_up(set.segment_offsets);
  set.hubs.resize(set.entry_offsets[num_nodes]);
  set.segments.resize(set.segment_offsets[num_nodes]);
  parallel_for(threads, pieces, 1, control, [&](unsigned, std::size_t piece, std::size_t) {
    const std::size_t begin = piece * kPieceNodes;
    const std::size_t end = std::min<std::size_t>(num_nodes, begin + kPieceNodes);
    Node filled[kPieceNodes];         // entries written so far
    std::uint32_t open[kPieceNodes];  // segments written so far
    for (std::size_t v = begin; v < end; ++v) {
      set.hubs[set.entry_offsets[v]] = static_cast<Node>(v);
      set.segments[set.segment_offsets[v]] = {0, 1};
      filled[v - begin] = open[v - begin] = 1;
    }
    each_run(blocks, num_levels, pieces, piece,
             [&](Distance distance, Node first_hub, std::span<const Node> nodes,
                 const std::uint16_t* counts, const std::uint16_t* local_hubs) {
               for (std::size_t i = 0; i < nodes.size(); ++i) {
                 const Node v = nodes[i];
                 Node& entries = filled[v - begin];
                 std::uint32_t& segments = open[v - begin];
                 Node* hubs = set.hubs.data() + set.entry_offsets[v] + entries;
                 for (std::uint16_t k = 0; k < counts[i]; ++k) {
                   hubs[k] = first_hub + *local_hubs++;
                 }
                 entries += counts[i];
                 Segment* list = set.segments.data() + set.segment_offsets[v];
                 if (list[segments - 1].distance != distance) {
                   list[segments++] = {distance, entries};
                 } else {
                   list[segments - 1].end = entries;
                 }
               }
             });
  });
  return set;
}

GroupedLabels<std::uint16_t> gather_top(Node num_nodes, const std::vector<PlaneBlock>& blocks,
                                        unsigned threads, Control& control) {
  const std::size_t pieces = num_pieces(num_nodes);
  const Distance num_levels = most_levels(blocks);
  GroupedLabels<std::uint16_t> top(num_nodes, control);
  parallel_for(threads, pieces, 1, control, [&](unsigned, std::size_t piece, std::size_t) {
    const std::size_t begin = piece * kPieceNodes;
    const std::size_t end = std::min<std::size_t>(num_nodes, begin + kPieceNodes);
    std::uint32_t groups[kPieceNodes] = {};
    std::uint32_t open[kPieceNodes] = {};  // hubs at the distance last seen
    Distance last_distance[kPieceNodes] = {};
    each_run(blocks, num_levels, pieces, piece,
             [&](Distance distance, Node, std::span<const Node> nodes, const std::uint16_t* counts,
                 const std::uint16_t*) {
               for (std::size_t i = 0; i < nodes.size(); ++i) {
                 const std::size_t v = nodes[i] - begin;
                 if (last_distance[v] != distance) {
                   groups[v] += static_cast<std::uint32_t>(groups_for(open[v]));
                   open[v] = 0;
                   last_distance[v] = distance;
                 }
                 open[v] += counts[i];
               }
             });
    for (std::size_t v = begin; v < end; ++v) {
      top.set_groups(static_cast<Node>(v), groups[v - begin] + groups_for(open[v - begin]));
    }
    top.place_piece(piece);
    std::vector<GroupWriter<std::uint16_t>> writers;
    for (std::size_t v = begin; v < end; ++v) writers.emplace_back(top.writable(static_cast<Node>(v)));
    each_run(blocks, num_levels, pieces, piece,
             [&](Distance distance, Node first_hub, std::span<const Node> nodes,
                 const std::uint16_t* counts, const std::uint16_t* local_hubs) {
               for (std::size_t i = 0; i < nodes.size(); ++i) {
                 GroupWriter<std::uint16_t>& writer = writers[nodes[i] - begin];
                 for (std::uint16_t k = 0; k < counts[i]; ++k) {
                   writer.add(distance, static_cast<std::uint16_t>(first_hub + *local_hubs++));
                 }
               }
             });
  });
  return top;
}

}  // namespace dhilgt
