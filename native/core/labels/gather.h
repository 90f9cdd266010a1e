// From entries per block of hubs to labels per node.
#pragma once

#include <vector>

#include "labels/groups.h"
#include "labels/planes.h"
#include "labels/set.h"

namespace dhilgt {

// Joins complete blocks that together cover all hubs. Each piece of nodes is gathered by one worker,
// reading every block in (distance, hub) order: nothing is sorted and nothing is locked. The blocks'
// entries leave out self entries; they are put in front here.
LabelSet gather_labels(Node num_nodes, const std::vector<PlaneBlock>& blocks, unsigned threads,
                       Control& control);

// The same for blocks that cover only the best hubs, as input for the tail; without self entries.
GroupedLabels<std::uint16_t> gather_top(Node num_nodes, const std::vector<PlaneBlock>& blocks,
                                        unsigned threads, Control& control);

// Turns counts (stored at index v + 1, index 0 being 0) into offsets.
void sum_up(Buffer<Offset>& offsets);

}  // namespace dhilgt
