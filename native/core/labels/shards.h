// Labels in independent units: the entries of a range of hubs, found alone, and the labels of a range of
// nodes, merged from all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/hub_search.h"
#include "labels/pack.h"
#include "labels/planes.h"

namespace dhilgt {

// A search by planes that goes deeper than this is done hub by hub: few nodes take part in each level.
inline constexpr Distance kMostPlaneLevels = 64;

struct HubRange {
  Node num_nodes = 0;
  Node first = 0;
  Node last = 0;
  Distance radius = kUnreachable;
  std::uint32_t plane_words = 0;  // by planes with rows of this many words; 0: hub by hub
  unsigned threads = 1;
};

// Labels of a range of nodes, or inverted labels of a range of hubs: the record of each hub holds the nodes whose
// labels have it.
struct PackedRows {
  PackedLabels packed;
  std::uint64_t num_entries = 0;  // without self entries
  Distance max_distance = 0;
  std::uint64_t num_arcs = 0;   // read
  std::uint64_t num_tests = 0;  // labels of the table read
};

// The entries of a range of hubs by node, cut at bounds. A slice lists the nodes that have any: the step from
// the previous one, and a record of hubs, counted from the first of the range.
struct Slices {
  Buffer<Offset> offsets;  // one per slice, and the end of the last
  Buffer<std::uint8_t> bytes;
};

// All entries of a range of hubs, by hub and by node.
struct HubShard {
  PackedRows rows;
  Slices slices;
};

// `push` are the arcs that the searches follow, `pull` those against them. The table is used only hub by
// hub, and its hubs must rank before the range. `bounds` ascend from 0 to the number of nodes.
template <class Word>
HubShard search_hubs(const HubRange& range, const ArcsView& push, const ArcsView& pull,
                     const TopTable<Word>& top, std::span<const Node> bounds, Control& control);

// The slices of entries that are given by hub, as one part of rows, or as a block.
Slices slice_by_node(const PackedView& holders, std::span<const Node> bounds, unsigned threads,
                     Control& control);
Slices slice_block(const PlaneBlock& block, std::span<const Node> bounds, Control& control);

// The slice of one range of hubs for the nodes that are merged.
struct Slice {
  Node first_hub = 0;
  Node last_hub = 0;
  std::span<const std::uint8_t> bytes;
};

// The labels of the nodes [begin, end), from slices by ascending hubs.
PackedRows merge_slices(std::span<const Slice> slices, Node begin, Node end, Node num_nodes, Control& control);

// The labels of the nodes [begin, end) as groups, from the slices of the best hubs.
template <class Word>
struct TopRows {
  Buffer<Offset> starts;  // one per node, and the end of the last, in groups
  Buffer<Word> words;
};
template <class Word>
TopRows<Word> group_slices(std::span<const Slice> slices, Node begin, Node end, Node num_nodes,
                           Control& control);

}  // namespace dhilgt
