// Rows of hubs, each with its holders, written from entries that come in another order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/fill.h"
#include "labels/pack.h"
#include "labels/records.h"
#include "labels/shards.h"

namespace dhilgt {

// Rows of consecutive hubs, in the making.
struct RowWriter {
  explicit RowWriter(Control& control) : sizes(&control), bytes(&control) {}

  void add(const LabelView& row) {
    sizes.push_back(append_record(bytes, row));
    num_entries += row.hubs.size() - 1;
    max_distance = std::max(max_distance, row.segments.back().distance);
  }

  Buffer<Offset> sizes;
  Buffer<std::uint8_t> bytes;
  std::uint64_t num_entries = 0;
  Distance max_distance = 0;
  std::uint64_t num_arcs = 0;
};

// The rows of writers, one after the other; their memory is freed.
inline PackedRows joined_rows(std::vector<RowWriter>& writers, Control& control) {
  PackedRows rows{{Buffer<Offset>(&control), Buffer<std::uint8_t>(&control)}};
  rows.packed.offsets.push_back(0);
  for (RowWriter& writer : writers) {
    for (const Offset size : writer.sizes) rows.packed.offsets.push_back(size);
    if (rows.packed.bytes.empty()) rows.packed.bytes.swap(writer.bytes);
    else rows.packed.bytes.append(writer.bytes.data(), writer.bytes.size());
    writer.bytes.clear();
    rows.num_entries += writer.num_entries;
    rows.max_distance = std::max(rows.max_distance, writer.max_distance);
    rows.num_arcs += writer.num_arcs;
  }
  counts_to_offsets(rows.packed.offsets);
  return rows;
}

inline constexpr std::size_t kEntriesAtOnce = std::size_t{1} << 22;  // 32 MB

// An entry of a hub.
struct HolderEntry {
  Distance distance;
  Node node;
};

// Makes the row of a hub from its entries, those of each distance by node.
inline void row_of(Node hub, std::span<HolderEntry> entries, DecodedLabel& row) {
  constexpr Distance kShort = 64;  // nearly all distances are
  row.hubs.resize(entries.size() + 1);
  row.hubs[0] = hub;
  row.segments.assign(1, {0, 1});
  Node ends[kShort] = {};
  bool is_short = true;
  for (const HolderEntry& entry : entries) {
    if (entry.distance >= kShort) {
      is_short = false;
      break;
    }
    ++ends[entry.distance];
  }
  if (is_short) {
    Node end = 1;
    for (Distance distance = 1; distance < kShort; ++distance) {
      const Node count = ends[distance];
      ends[distance] = end;  // where its nodes begin
      end += count;
      if (count > 0) row.segments.push_back({distance, end});
    }
    for (const HolderEntry& entry : entries) row.hubs[ends[entry.distance]++] = entry.node;
    return;
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const HolderEntry& a, const HolderEntry& b) { return a.distance < b.distance; });
  for (std::size_t i = 0; i < entries.size(); ++i) {
    row.hubs[i + 1] = entries[i].node;
    if (row.segments.back().distance != entries[i].distance) row.segments.push_back({entries[i].distance, 0});
    row.segments.back().end = static_cast<Node>(i + 2);
  }
}

// Regroups entries by hub, some hubs at a time, so that this takes little more memory than the entries
// themselves. `ends` has the number of entries of hub first_hub + i at place i + 1. each_entry(visit) calls
// visit(distance, node, hub - first_hub) for all of them, those of a hub and distance by node; it is called
// several times.
template <class EachEntry>
void write_rows(Node first_hub, Node num_nodes, std::vector<std::size_t>& ends, RowWriter& rows,
                Control& control, EachEntry&& each_entry) {
  const auto num_hubs = static_cast<Node>(ends.size() - 1);
  for (Node hub = 0; hub < num_hubs; ++hub) ends[hub + 1] += ends[hub];
  const Charge row_memory(control, std::uint64_t{num_nodes} * sizeof(Node));  // one hub may have all nodes
  const std::size_t fit = std::min<std::uint64_t>(kEntriesAtOnce, control.free_bytes() / (4 * sizeof(HolderEntry)));
  const std::size_t most = std::max(ends[num_hubs] / 4 + kPieceNodes, fit);
  Buffer<HolderEntry> entries(&control);
  DecodedLabel row;
  for (Node begin = 0; begin < num_hubs;) {
    Node end = begin + 1;
    while (end < num_hubs && ends[end + 1] - ends[begin] <= most) ++end;
    control.check();
    entries.resize(ends[end] - ends[begin]);
    std::vector<std::size_t> cursors(ends.begin() + begin, ends.begin() + end);
    each_entry([&](Distance distance, Node node, Node hub) {
      if (hub >= begin && hub < end) entries[cursors[hub - begin]++ - ends[begin]] = {distance, node};
    });
    for (Node hub = begin; hub < end; ++hub) {
      const std::size_t from = ends[hub] - ends[begin];
      row_of(first_hub + hub, {entries.data() + from, ends[hub + 1] - ends[hub]}, row);
      rows.add(row.view());
    }
    begin = end;
  }
}

}  // namespace dhilgt
