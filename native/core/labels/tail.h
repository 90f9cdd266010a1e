// Labels by level-synchronous propagation: the entries of distance d of a node come from its neighbours'
// entries of distance d - 1, each tested against the labels found so far.
//
// It continues where the bit planes stopped: the entries of hubs ranked better than `first_hub` are
// input, the others are found here. Only nodes from rank first_hub on take part, because a path through
// a better node is covered by that node. With first_hub = 0 it labels the whole graph.
#pragma once

#include "graph/ranked_graph.h"
#include "labels/groups.h"
#include "labels/set.h"

namespace dhilgt {

// `top_in` and `top_out` hold the labels restricted to hubs below first_hub (see gather_top) and are
// consumed; top_out is ignored for undirected graphs. Stops after distance `radius`, 1 or more.
Labels label_tail(const RankedGraph& graph, Node first_hub, GroupedLabels<std::uint16_t> top_in,
                  GroupedLabels<std::uint16_t> top_out, Distance radius, unsigned threads,
                  Control& control);

}  // namespace dhilgt
