// Labels as bytes for the disk: about 1.3 bytes per entry; the record of each node can be read alone.
//
// A record: the number of segments; per segment the step in distance and the number of hubs; then all
// hubs, each as the step from the previous hub of its segment. Every number is a varint: seven bits per
// byte, low bits first. The self entry (distance 0) is always present and therefore left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "labels/set.h"

namespace dhilgt {

// The bytes are not the output of pack_labels.
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

// A decoded label; its memory can be reused for the next node.
struct DecodedLabel {
  std::vector<Node> hubs;
  std::vector<Segment> segments;
  LabelView view() const { return {hubs, segments}; }
};

// Validates everything; throws BadPacking for a record that is cut short, too long or out of range.
void decode_label(const PackedView& packed, Node node, DecodedLabel& out);

// The same for one record alone, of a graph of `num_nodes` nodes.
void decode_record(std::span<const std::uint8_t> record, Node num_nodes, Node node, DecodedLabel& out);

// Numbers of entries and segments of a record, the self entry included, from its first bytes; the hubs
// are not read, and only decode_record validates them.
struct RecordSize {
  Node entries;
  Node segments;
};
RecordSize record_size(std::span<const std::uint8_t> record, Node num_nodes, Node node);

LabelSet unpack_labels(const PackedView& packed, unsigned threads, Control& control);

}  // namespace dhilgt
