// Builds the canonical labels of a ranked graph. All algorithms give the same bytes.
#pragma once

#include <vector>

#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/planes.h"
#include "labels/set.h"

namespace dhilgt {

enum class Algorithm {
  automatic,  // planes for the best hubs while they are cheaper, then the tail; pll if paths are long
  pll,        // Algorithm 1
  planes,     // bit planes for all hubs
  psl,        // level-synchronous propagation for all hubs
};

inline constexpr Node kPlanHubs = 0xFFFFFFFFu;  // the cost model chooses

struct BuildOptions {
  Algorithm algorithm = Algorithm::automatic;
  unsigned threads = 1;
  Node plane_hubs = kPlanHubs;  // automatic only: hubs found by planes
  Distance max_distance = kUnreachable;  // entries with a longer distance are left out; 1 or more
};

Labels build_labels(const RankedGraph& graph, const BuildOptions& options, Control& control);

// Computes the exact size of a label by one search: a node is a hub of `node` if it is the best ranked
// of all nodes on all shortest paths between the two. `arcs` are the forward arcs for the hubs that the
// node reaches, the backward arcs for the hubs that reach it.
class LabelSizeProbe {
 public:
  static constexpr Distance kLastDistance = 255;

  LabelSizeProbe(Node num_nodes, Control& control);

  // Adds the number of hubs at each distance to by_distance, which grows as needed: one search gives the
  // sizes for every radius. It ends at max_distance. Its last possible item counts all farther hubs.
  void count(const Adjacency& arcs, Node node, Distance max_distance, std::vector<std::uint64_t>& by_distance,
             Control& control);

 private:
  Buffer<Node> best_;
  Buffer<Distance> depth_;
  Buffer<Node> queue_;
};

}  // namespace dhilgt
