// Algorithm 1: pruned landmark labeling, one root after the other. The reference.
#pragma once

#include "labels/set.h"
#include "graph/ranked_graph.h"

namespace dhilgt {

Labels label_by_pll(const RankedGraph& graph, Control& control);

}  // namespace dhilgt
