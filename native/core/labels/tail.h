// Labels by level-synchronous propagation: entries of distance d come from the neighbours' entries of
// distance d - 1, each tested against the labels known so far.
//
// It starts where the bit planes stopped: hubs ranked better than `first_hub` are given, the rest is
// found here. Only nodes ranked from first_hub on take part, since a path through a better node is
// covered by it. With first_hub = 0 it labels the whole graph alone.
#pragma once

#include "labels/groups.h"
#include "labels/set.h"
#include "graph/ranked_graph.h"

namespace dhilgt {

// `top_in` and `top_out` hold the labels restricted to hubs below first_hub (see gather_top);
// top_out is ignored for undirected graphs. They are consumed.
Labels label_tail(const RankedGraph& graph, Node first_hub, GroupedLabels<std::uint16_t> top_in,
                  GroupedLabels<std::uint16_t> top_out, unsigned threads, Control& control);

}  // namespace dhilgt
