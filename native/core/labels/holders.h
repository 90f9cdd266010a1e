// The labels turned around: for each hub the nodes that hold it.
#pragma once

#include "labels/set.h"

namespace dhilgt {

// Same form as labels: per hub, segments by ascending distance, nodes ascending inside. Self entries
// stay, so turning around twice gives the same labels back.
LabelSet turn_around(const LabelSet& labels, unsigned threads, Control& control);

}  // namespace dhilgt
