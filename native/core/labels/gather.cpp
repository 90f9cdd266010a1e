#include "labels/gather.h"

#include <algorithm>
#include <ranges>

#include "base/parallel.h"
#include "labels/fill.h"

namespace dhilgt {

namespace {

// Calls visit(distance, first_hub, nodes, counts, local_hubs) for every (distance, block) that has
// entries in the piece.
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
  return fill_label_set(num_nodes, threads, control, [&](Node begin, Node end, auto&& emit) {
    for (Node node = begin; node < end; ++node) emit(node, Distance{0}, std::span(&node, 1));
    each_run(blocks, num_levels, pieces, begin / kPieceNodes,
             [&](Distance distance, Node first_hub, std::span<const Node> nodes,
                 const std::uint16_t* counts, const std::uint16_t* local_hubs) {
               const auto rank = [first_hub](std::uint16_t local_hub) { return first_hub + local_hub; };
               for (std::size_t i = 0; i < nodes.size(); ++i) {
                 const std::span<const std::uint16_t> hubs(local_hubs, counts[i]);
                 emit(nodes[i], distance, std::views::transform(hubs, rank));
                 local_hubs += counts[i];
               }
             });
  });
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
    std::uint32_t open[kPieceNodes] = {};  // hubs at the last distance
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
