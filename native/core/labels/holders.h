// Labels inverted (for each hub, its holders: the nodes that have it in their label) and joined.
#pragma once

#include <compare>
#include <vector>

#include "labels/set.h"

namespace dhilgt {

// The result has the form of labels: per hub segments by ascending distance, holders ascending in each.
// Self entries stay, so inverting twice gives the same labels again.
LabelSet invert_labels(const LabelSet& labels, unsigned threads, Control& control);

// Joins the two labels of a node, or the two holder lists of a hub: each node once, at its smaller
// distance, by distance, then node. The self entry comes first.
struct JoinedEntry {
  Distance distance;
  Node hub;
  auto operator<=>(const JoinedEntry&) const = default;
};
void join_label(const LabelView& in, const LabelView& out, std::vector<JoinedEntry>& entries);

// The two label sets of a directed graph as one: per node each hub once, at its smaller distance.
LabelSet join_labels(const LabelSet& in, const LabelSet& out, unsigned threads, Control& control);

}  // namespace dhilgt
