// Regroups the entries of plane blocks by node.
#pragma once

#include <vector>

#include "labels/groups.h"
#include "labels/planes.h"
#include "labels/set.h"

namespace dhilgt {

// Labels from complete blocks that together cover all hubs. Each piece of nodes is gathered by one
// worker that reads every block in order of (distance, hub), so nothing is sorted or locked. The blocks
// leave out the entry of each node for itself; it is added here.
LabelSet gather_labels(Node num_nodes, const std::vector<PlaneBlock>& blocks, unsigned threads,
                       Control& control);

// The same for blocks that cover only the best hubs, as input of label_tail; without self entries.
GroupedLabels<std::uint16_t> gather_top(Node num_nodes, const std::vector<PlaneBlock>& blocks,
                                        unsigned threads, Control& control);

}  // namespace dhilgt
