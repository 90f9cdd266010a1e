// Labels by bit planes: searches from 512 hubs at once, without reading any label.
//
// A block of hubs depends on the graph and the order, not on other blocks: blocks can be computed in any
// order, by any thread or machine.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/planes_kernel.h"

namespace dhilgt {

// The label entries of the hubs [first_hub, last_hub) in one direction, in order of distance, node, hub.
// The entry of each hub for itself (distance 0) is left out.
struct PlaneBlock {
  Node first_hub = 0;
  Node last_hub = 0;
  struct Mark {
    Offset nodes_end;  // end of the piece in nodes and counts
    Offset hubs_end;   // end of the piece in local_hubs
  };
  Buffer<Mark> marks;                // [level - 1][piece]; level = distance
  Buffer<Node> nodes;                // nodes with entries
  Buffer<std::uint16_t> counts;      // entries of each
  Buffer<std::uint16_t> local_hubs;  // hub - first_hub
  Distance num_levels = 0;
  std::uint64_t num_arcs = 0;        // arcs read
  bool complete = false;             // false: stopped at the level limit
};

// Working memory of one worker, used for one block after the other.
class PlaneWorker {
 public:
  // `words` of a row: 8, 4 or 2, for blocks of 512, 256 or 128 hubs.
  PlaneWorker(Node num_nodes, Control& control, std::uint32_t words = kPlaneWords);
  static std::uint64_t bytes_for(Node num_nodes, std::uint32_t words = kPlaneWords);

  // `pull` lists for each node the neighbours it takes hubs from: the backward arcs when hubs search
  // forwards. Stops after max_levels.
  PlaneBlock run(const ArcsView& pull, Node first_hub, Node last_hub, Distance max_levels,
                 Control& control);

 private:
  Node num_nodes_;
  std::uint32_t words_;
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
