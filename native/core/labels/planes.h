// Labels by bit planes: 512 hubs followed through the graph at once, without reading any label.
//
// A block needs the graph and the order and nothing from other blocks, so blocks can be made in any
// order, by any thread or machine.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "labels/planes_kernel.h"
#include "graph/ranked_graph.h"

namespace dhilgt {

// Nodes are visited in pieces of this many: the output room and the delay of a stop stay small, and
// later stages find the entries of any piece without searching.
inline constexpr Node kPieceNodes = 2048;
inline std::size_t num_pieces(Node num_nodes) { return (std::size_t{num_nodes} + kPieceNodes - 1) / kPieceNodes; }

// Label entries whose hub lies in [first_hub, last_hub), in one direction, ordered by distance, then
// node, then hub. The entry of each hub for itself (distance 0) is left implicit.
struct PlaneBlock {
  Node first_hub = 0;
  Node last_hub = 0;
  struct Mark {
    Offset nodes_end;  // position after the piece's last item in nodes and counts
    Offset hubs_end;   // and in local_hubs
  };
  Buffer<Mark> marks;                // [level - 1][piece]; level = distance
  Buffer<Node> nodes;                // nodes that gained entries
  Buffer<std::uint16_t> counts;      // how many each
  Buffer<std::uint16_t> local_hubs;  // hub - first_hub
  Distance num_levels = 0;
  std::uint64_t num_arcs = 0;        // arcs looked at
  bool complete = false;             // false: gave up at the level limit
};

// Working memory of one worker, reused from block to block.
class PlaneWorker {
 public:
  PlaneWorker(Node num_nodes, Control& control);
  static std::uint64_t bytes_for(Node num_nodes);

  // `pull` lists, for each node, the neighbours it takes from: the backward arcs when
  // hubs search forwards. Gives up after max_levels.
  PlaneBlock run(const Adjacency& pull, Node first_hub, Node last_hub, Distance max_levels,
                 Control& control);

 private:
  Node num_nodes_;
  AlignedArray<std::uint64_t> clean_;
  AlignedArray<std::uint64_t> covered_;
  AlignedArray<std::uint64_t> next_clean_;
  AlignedArray<std::uint64_t> next_covered_;
  AlignedArray<std::uint64_t> seen_;
  AlignedArray<std::uint8_t> state_;
  AlignedArray<std::uint8_t> next_state_;
  AlignedArray<std::uint8_t> full_;
  Buffer<Node> out_nodes_;
  Buffer<std::uint16_t> out_counts_;
  Buffer<std::uint16_t> out_hubs_;
};

}  // namespace dhilgt
