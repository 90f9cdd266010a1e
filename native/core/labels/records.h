// Records of packed labels, written and read one by one; see pack.h for their form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/types.h"
#include "labels/pack.h"
#include "labels/set.h"

namespace dhilgt {

inline std::size_t varint_size(std::uint32_t value) {
  return value < (1u << 7) ? 1 : value < (1u << 14) ? 2 : value < (1u << 21) ? 3 : value < (1u << 28) ? 4 : 5;
}

// Writes a number and returns the place after it.
inline std::uint8_t* put_varint(std::uint8_t* out, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value | 0x80);
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

// Calls put(number) for all numbers of a record, in order. The label begins with its self entry.
template <class Put>
void each_number(const LabelView& label, Put&& put) {
  put(static_cast<std::uint32_t>(label.segments.size() - 1));
  Node begin = 1;  // after the self entry
  Distance before = 0;
  for (const Segment& segment : label.segments.subspan(1)) {
    put(segment.distance - before);
    put(segment.end - begin);
    before = segment.distance;
    begin = segment.end;
  }
  label.each_segment([&](Distance distance, std::span<const Node> hubs) {
    if (distance == 0) return;
    Node next = 0;  // the smallest hub that can follow, so steps start at 0
    for (const Node hub : hubs) {
      put(hub - next);
      next = hub + 1;
    }
  });
}

inline void append_varint(Buffer<std::uint8_t>& bytes, std::uint32_t value) {
  std::uint8_t number[5];
  bytes.append(number, static_cast<std::size_t>(put_varint(number, value) - number));
}

// Appends the record of a label and returns its size.
inline std::size_t append_record(Buffer<std::uint8_t>& bytes, const LabelView& label) {
  const std::size_t before = bytes.size();
  bytes.reserve_more(5 * (1 + 2 * label.segments.size() + label.hubs.size()));
  std::uint8_t* out = bytes.end();
  each_number(label, [&](std::uint32_t value) { out = put_varint(out, value); });
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
  return bytes.size() - before;
}

// Reads numbers and throws BadPacking, with the rank of the record, where they end too soon.
class RecordReader {
 public:
  RecordReader(std::span<const std::uint8_t> bytes, Node node)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), node_(node) {}

  std::uint32_t next() {
    if (at_ != end_ && *at_ < 0x80) return *at_++;  // most numbers take one byte
    return next_long();
  }
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }
  const std::uint8_t* at() const { return at_; }

 private:
  std::uint32_t next_long() {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (at_ == end_) throw BadPacking(node_, "record is cut short");
      const std::uint8_t byte = *at_++;
      if (shift == 28 && byte > 0x0F) break;
      value |= static_cast<std::uint32_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw BadPacking(node_, "number does not fit 32 bits");
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  Node node_;
};

// Reads a record up to its first hub, calls visit(segment) for every segment after the self entry and
// returns the number of entries, the self entry included. Distances must be below num_nodes; there are at
// most `most_entries`.
template <class Visit>
Node read_segments(RecordReader& reader, Node node, Node num_nodes, std::uint64_t most_entries,
                   Visit&& visit) {
  const std::uint32_t num_segments = reader.next();
  if (num_segments > reader.bytes_left() / 2) throw BadPacking(node, "more segments than bytes");
  Distance distance = 0;
  std::uint64_t entries = 1;
  for (std::uint32_t i = 0; i < num_segments; ++i) {
    const std::uint32_t step = reader.next();
    // A shortest path has fewer edges than the graph has nodes; tables indexed by distance rely on it.
    if (step == 0 || step >= num_nodes - distance) {
      throw BadPacking(node, "distances do not ascend within the graph");
    }
    distance += step;
    const std::uint32_t count = reader.next();
    if (count == 0) throw BadPacking(node, "an empty segment");
    entries += count;
    if (entries > most_entries) throw BadPacking(node, "more hubs than nodes");
    visit(Segment{distance, static_cast<Node>(entries)});
  }
  if (entries - 1 > reader.bytes_left()) throw BadPacking(node, "more hubs than bytes");
  return static_cast<Node>(entries);
}

// Reads the hubs of a record after its segments; out must begin with the self entry.
inline void read_hubs(RecordReader& reader, Node node, Node num_hubs, std::span<const Segment> segments, Node* out) {
  Node at = 1;
  for (const Segment& segment : segments.subspan(1)) {
    std::uint64_t next = 0;
    for (; at < segment.end; ++at) {
      const std::uint64_t hub = next + reader.next();
      if (hub >= num_hubs) throw BadPacking(node, "hub is not a node");
      out[at] = static_cast<Node>(hub);
      next = hub + 1;
    }
  }
}

// Reads one record, validating everything. Hubs must be below num_hubs, distances below num_nodes; there
// are at most `most_entries`, the self entry included.
inline void read_record(RecordReader& reader, Node node, Node num_hubs, Node num_nodes,
                        std::uint64_t most_entries, DecodedLabel& out) {
  out.segments.assign(1, {0, 1});
  const Node entries = read_segments(reader, node, num_nodes, most_entries,
                                     [&](const Segment& segment) { out.segments.push_back(segment); });
  out.hubs.resize(entries);
  out.hubs[0] = node;
  read_hubs(reader, node, num_hubs, out.segments, out.hubs.data());
}

}  // namespace dhilgt
