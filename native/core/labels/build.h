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
};

Labels build_labels(const RankedGraph& graph, const BuildOptions& options, Control& control);

// Computes the exact size of a label by one search: a node is a hub of `node` if it is the best ranked
// of all nodes on all shortest paths between the two. `arcs` are the forward arcs for the hubs that the
// node reaches, the backward arcs for the hubs that reach it.
class LabelSizeProbe {
 public:
  LabelSizeProbe(Node num_nodes, Control& control);
  std::uint64_t label_size(const Adjacency& arcs, Node node, Control& control);

 private:
  Buffer<Node> best_;
  Buffer<Distance> depth_;
  Buffer<Node> queue_;
};

}  // namespace dhilgt
