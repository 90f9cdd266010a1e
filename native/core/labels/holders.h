// Labels inverted (for each hub, its holders: the nodes that have it in their label) and joined.
#pragma once

#include "labels/set.h"

namespace dhilgt {

// The result has the form of labels: per hub segments by ascending distance, holders ascending in each.
// Self entries stay, so inverting twice gives the same labels again.
LabelSet invert_labels(const LabelSet& labels, unsigned threads, Control& control);

// The two label sets of a directed graph as one: per node each hub once, at its smaller distance.
LabelSet join_labels(const LabelSet& in, const LabelSet& out, unsigned threads, Control& control);

}  // namespace dhilgt
