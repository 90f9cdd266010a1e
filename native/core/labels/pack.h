// Labels as bytes for the disk: about 1.3 bytes per entry; the record of each node can be read alone.
//
// A record: the number of segments; per segment the step in distance and the number of hubs; then all
// hubs, each as the step from the previous hub of its segment. Every number is a varint: seven bits per
// byte, low bits first. The self entry (distance 0) is always present and therefore left out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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

// The records of the ranks from `first` on; offsets are relative to the bytes of the part.
struct PackedPart {
  Node first = 0;
  std::span<const Offset> offsets;  // one per record, and the end of the last
  std::span<const std::uint8_t> bytes;
};

// Records of all ranks, in one part or in several that follow each other.
struct PackedView {
  PackedView() = default;
  PackedView(Node count, std::span<const Offset> offsets, std::span<const std::uint8_t> bytes)
      : num_nodes(count), parts{{0, offsets, bytes}} {}
  PackedView(Node count, std::vector<PackedPart> pieces) : num_nodes(count), parts(std::move(pieces)) {}

  const PackedPart& part_of(Node rank) const {
    if (parts.size() == 1) return parts[0];
    const auto after = std::upper_bound(parts.begin(), parts.end(), rank,
                                        [](Node at, const PackedPart& part) { return at < part.first; });
    return *(after - 1);
  }
  std::span<const std::uint8_t> record(Node rank) const;  // throws BadPacking

  Node num_nodes = 0;
  std::vector<PackedPart> parts;
};

// A decoded label; its memory can be reused for the next node.
struct DecodedLabel {
  std::vector<Node> hubs;
  std::vector<Segment> segments;
  LabelView view() const { return {hubs, segments}; }

  // Begins a label that has its self entry alone.
  void begin(Node self) {
    hubs.assign(1, self);
    segments.assign(1, {0, 1});
  }
  // Ends the hubs of one distance, after they were appended.
  void end_segment(Distance distance) {
    if (segments.back().distance != distance) segments.push_back({distance, 0});
    segments.back().end = static_cast<Node>(hubs.size());
  }
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

// The records of some ranks, in their order, one after the other.
PackedLabels gather_records(const PackedView& packed, std::span<const Node> ranks, Control& control);

LabelSet unpack_labels(const PackedView& packed, unsigned threads, Control& control);

}  // namespace dhilgt
