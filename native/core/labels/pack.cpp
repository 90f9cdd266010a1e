#include "labels/pack.h"

#include <algorithm>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/records.h"

namespace dhilgt {

BadPacking::BadPacking(Node at, const std::string& what)
    : std::runtime_error("label of rank " + std::to_string(at) + ": " + what), node(at) {}

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
      each_number(labels.of(static_cast<Node>(v)), [&](std::uint32_t value) { out = put_varint(out, value); });
    }
  });
  return packed;
}

void decode_label(const PackedView& packed, Node node, DecodedLabel& out) {
  decode_record(packed.record(node), packed.num_nodes, node, out);
}

std::span<const std::uint8_t> PackedView::record(Node node) const {
  const PackedPart& part = part_of(node);
  const Offset from = part.offsets[node - part.first];
  const Offset to = part.offsets[node - part.first + 1];
  if (from > to || to > part.bytes.size()) throw BadPacking(node, "offsets run outside the data");
  return part.bytes.subspan(from, to - from);
}

void decode_record(std::span<const std::uint8_t> record, Node num_nodes, Node node, DecodedLabel& out) {
  RecordReader reader(record, node);
  read_record(reader, node, num_nodes, num_nodes, num_nodes, out);
  if (reader.bytes_left() != 0) throw BadPacking(node, "record has bytes left over");
}

RecordSize record_size(std::span<const std::uint8_t> record, Node num_nodes, Node node) {
  RecordReader reader(record, node);
  RecordSize size{0, 1};
  size.entries = read_segments(reader, node, num_nodes, num_nodes, [&](const Segment&) { ++size.segments; });
  return size;
}

PackedLabels gather_records(const PackedView& packed, std::span<const Node> ranks, Control& control) {
  PackedLabels gathered{Buffer<Offset>(&control, ranks.size() + 1), Buffer<std::uint8_t>(&control)};
  gathered.offsets[0] = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    gathered.offsets[i + 1] = gathered.offsets[i] + packed.record(ranks[i]).size();
  }
  gathered.bytes.resize(gathered.offsets[ranks.size()]);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if ((i & 0xFFF) == 0) control.check();
    const std::span<const std::uint8_t> record = packed.record(ranks[i]);
    std::copy(record.begin(), record.end(), gathered.bytes.data() + gathered.offsets[i]);
  }
  return gathered;
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
