#include "labels/pack.h"

#include <algorithm>

#include "base/parallel.h"
#include "labels/fill.h"

namespace dhilgt {

BadPacking::BadPacking(Node at, const std::string& what)
    : std::runtime_error("label of rank " + std::to_string(at) + ": " + what), node(at) {}

namespace {

std::size_t varint_size(std::uint32_t value) {
  return value < (1u << 7) ? 1 : value < (1u << 14) ? 2 : value < (1u << 21) ? 3 : value < (1u << 28) ? 4 : 5;
}

// Calls put(number) for all numbers of a record, in order.
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

class Reader {
 public:
  Reader(std::span<const std::uint8_t> bytes, Node node)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), node_(node) {}

  std::uint32_t next() {
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
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  Node node_;
};

}  // namespace

PackedLabels pack_labels(const LabelSet& labels, unsigned threads, Control& control) {
  const Node n = labels.num_nodes();
  PackedLabels packed{Buffer<Offset>(&control, std::size_t{n} + 1), Buffer<std::uint8_t>(&control)};
  packed.offsets[0] = 0;
  parallel_for(threads, n, kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t v = begin; v < end; ++v) {
      Offset size = 0;
      each_number(labels.of(static_cast<Node>(v)), [&](std::uint32_t value) { size += varint_size(value); });
      packed.offsets[v + 1] = size;
    }
  });
  counts_to_offsets(packed.offsets);
  packed.bytes.resize(packed.offsets[n]);
  parallel_for(threads, n, kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t v = begin; v < end; ++v) {
      std::uint8_t* out = packed.bytes.data() + packed.offsets[v];
      each_number(labels.of(static_cast<Node>(v)), [&](std::uint32_t value) {
        for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value | 0x80);
        *out++ = static_cast<std::uint8_t>(value);
      });
    }
  });
  return packed;
}

void decode_label(const PackedView& packed, Node node, DecodedLabel& out) {
  const PackedPart& part = packed.part_of(node);
  const Offset from = part.offsets[node - part.first];
  const Offset to = part.offsets[node - part.first + 1];
  if (from > to || to > part.bytes.size()) throw BadPacking(node, "offsets run outside the data");
  Reader reader(part.bytes.subspan(from, to - from), node);
  const std::uint32_t num_segments = reader.next();
  if (num_segments > reader.bytes_left() / 2) throw BadPacking(node, "more segments than bytes");
  out.segments.assign(1, {0, 1});
  Distance distance = 0;
  std::uint64_t entries = 1;
  for (std::uint32_t i = 0; i < num_segments; ++i) {
    const std::uint32_t step = reader.next();
    // A shortest path has fewer edges than the graph has nodes; tables indexed by distance rely on it.
    if (step == 0 || step >= packed.num_nodes - distance) {
      throw BadPacking(node, "distances do not ascend within the graph");
    }
    distance += step;
    const std::uint32_t count = reader.next();
    if (count == 0) throw BadPacking(node, "an empty segment");
    entries += count;
    if (entries > std::uint64_t{packed.num_nodes}) throw BadPacking(node, "more hubs than nodes");
    out.segments.push_back({distance, static_cast<Node>(entries)});
  }
  if (entries - 1 > reader.bytes_left()) throw BadPacking(node, "more hubs than bytes");
  out.hubs.resize(entries);
  out.hubs[0] = node;
  Node at = 1;
  for (const Segment& segment : std::span(out.segments).subspan(1)) {
    std::uint64_t next = 0;
    for (; at < segment.end; ++at) {
      const std::uint64_t hub = next + reader.next();
      if (hub >= packed.num_nodes) throw BadPacking(node, "hub is not a node");
      out.hubs[at] = static_cast<Node>(hub);
      next = hub + 1;
    }
  }
  if (reader.bytes_left() != 0) throw BadPacking(node, "record has bytes left over");
}

LabelSet unpack_labels(const PackedView& packed, unsigned threads, Control& control) {
  // Not by fill_label_set: whole labels can be copied at once, which is faster.
  const Node n = packed.num_nodes;
  LabelSet labels(n, control);
  labels.entry_offsets[0] = labels.segment_offsets[0] = 0;
  parallel_for(threads, n, kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    DecodedLabel label;
    for (std::size_t v = begin; v < end; ++v) {
      decode_label(packed, static_cast<Node>(v), label);
      labels.entry_offsets[v + 1] = label.hubs.size();
      labels.segment_offsets[v + 1] = label.segments.size();
    }
  });
  counts_to_offsets(labels.entry_offsets);
  counts_to_offsets(labels.segment_offsets);
  labels.hubs.resize(labels.entry_offsets[n]);
  labels.segments.resize(labels.segment_offsets[n]);
  parallel_for(threads, n, kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    DecodedLabel label;
    for (std::size_t v = begin; v < end; ++v) {
      decode_label(packed, static_cast<Node>(v), label);
      std::copy(label.hubs.begin(), label.hubs.end(), labels.hubs.data() + labels.entry_offsets[v]);
      std::copy(label.segments.begin(), label.segments.end(),
                labels.segments.data() + labels.segment_offsets[v]);
    }
  });
  return labels;
}

}  // namespace dhilgt
