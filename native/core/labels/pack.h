// Labels as bytes for the disk: about a byte and a third an entry, each node readable on its own.
//
// A node's record: number of segments, then per segment the step in distance and the number of hubs,
// then all hubs, each as the step from the one before it in its segment. Every number is a varint (seven
// bits a byte, low bits first). The self entry (distance 0) is left out: it is always there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "labels/set.h"

namespace dhilgt {

// The bytes are not what packing writes.
struct BadPacking : std::runtime_error {
  explicit BadPacking(Node node, const std::string& what);
  Node node;
};

struct PackedLabels {
  Buffer<Offset> offsets;  // n + 1, into bytes
  Buffer<std::uint8_t> bytes;
};

PackedLabels pack_labels(const LabelSet& labels, unsigned threads, Control& control);

struct PackedView {
  Node num_nodes = 0;
  std::span<const Offset> offsets;
  std::span<const std::uint8_t> bytes;
};

// A decoded label; its memory is reused from node to node.
struct DecodedLabel {
  std::vector<Node> hubs;
  std::vector<Segment> segments;
  LabelView view() const { return {hubs, segments}; }
};

// Trusts nothing: a record that is cut short, runs over or names a node that does not exist throws.
void decode_label(const PackedView& packed, Node node, DecodedLabel& out);

LabelSet unpack_labels(const PackedView& packed, unsigned threads, Control& control);

}  // namespace dhilgt
