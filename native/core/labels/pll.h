// Pruned landmark labeling (Algorithm 1), one root after the other: the reference implementation.
#pragma once

#include "graph/ranked_graph.h"
#include "labels/set.h"

namespace dhilgt {

// Keeps the entries up to distance `radius`.
Labels label_by_pll(const RankedGraph& graph, Distance radius, Control& control);

}  // namespace dhilgt
