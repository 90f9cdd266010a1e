// Entries of ranges of hubs, cut by node.
#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "labels/planes.h"
#include "labels/shards.h"
#include "labels/slice_writer.h"

namespace dhilgt {
namespace {

struct Entry {
  Distance distance;
  Node hub;  // counted from the first of its range
};

constexpr std::size_t kEntriesPerPass = std::size_t{1} << 22;  // 32 MB

// Parts that are written together: every hub is decoded once per group, so there are few, but the entries
// of a group are all in memory.
struct PartGroup {
  std::size_t first_part;
  std::size_t last_part;
};

std::vector<PartGroup> part_groups(std::span<const Node> bounds, std::span<const Node> counts, unsigned threads) {
  const std::size_t num_parts = bounds.size() - 1;
  const std::size_t most_parts = threads > 1 ? std::max<std::size_t>(1, num_parts / threads) : num_parts;
  std::vector<PartGroup> groups;
  std::size_t entries = 0;
  for (std::size_t part = 0; part < num_parts; ++part) {
    std::size_t added = 0;
    for (Node node = bounds[part]; node < bounds[part + 1]; ++node) added += counts[node];
    const bool fits = !groups.empty() && entries + added <= kEntriesPerPass &&
                      part - groups.back().first_part < most_parts;
    if (!fits) {
      groups.push_back({part, part});
      entries = 0;
    }
    entries += added;
    groups.back().last_part = part + 1;
  }
  return groups;
}

// Writes the slices of some parts; `counts` has the number of entries of each node.
void write_slices(const PackedView& holders, Node begin, Node end, std::span<const Node> counts,
                  SliceWriter& out, Control& control) {
  const Node first_hub = holders.parts[0].first;
  const auto num_hubs = static_cast<Node>(holders.parts[0].offsets.size() - 1);
  Buffer<Offset> cursors(&control, std::size_t{end} - begin + 1);
  cursors[0] = 0;
  for (Node node = begin; node < end; ++node) cursors[node - begin + 1] = cursors[node - begin] + counts[node];
  Buffer<Entry> entries(&control, cursors[end - begin]);
  DecodedLabel row;
  for (Node hub = 0; hub < num_hubs; ++hub) {
    if ((hub & 0xFF) == 0) control.check();
    decode_label(holders, first_hub + hub, row);
    row.view().each_segment([&](Distance distance, std::span<const Node> nodes) {
      if (distance == 0) return;
      for (auto at = std::lower_bound(nodes.begin(), nodes.end(), begin); at != nodes.end() && *at < end; ++at) {
        entries[cursors[*at - begin]++] = {distance, hub};
      }
    });
  }
  std::size_t at = 0;
  for (Node node = begin; node < end; ++node) {
    if ((node & 0xFFFF) == 0) control.check();
    const std::size_t stop = cursors[node - begin];  // has moved to where the next node begins
    if (at == stop) continue;
    std::stable_sort(entries.begin() + at, entries.begin() + stop,  // hubs ascend already
                     [](const Entry& a, const Entry& b) { return a.distance < b.distance; });
    row.begin(0);
    for (; at < stop; ++at) {
      row.hubs.push_back(entries[at].hub);
      row.end_segment(entries[at].distance);
    }
    out.add(node, row.view());
  }
  out.close();
}

}  // namespace

Slices slice_by_node(const PackedView& holders, std::span<const Node> bounds, unsigned threads,
                     Control& control) {
  const Node first_hub = holders.parts[0].first;
  const auto num_hubs = static_cast<Node>(holders.parts[0].offsets.size() - 1);
  Buffer<Node> counts(&control);
  counts.assign(bounds.back(), 0);
  DecodedLabel row;
  for (Node hub = 0; hub < num_hubs; ++hub) {
    if ((hub & 0xFF) == 0) control.check();
    decode_label(holders, first_hub + hub, row);
    for (const Node node : std::span(row.hubs).subspan(1)) ++counts[node];
  }
  const std::vector<PartGroup> groups = part_groups(bounds, counts.view(), threads);
  std::vector<SliceWriter> writers;
  for (const PartGroup& group : groups) writers.emplace_back(bounds, group.first_part, group.last_part, control);
  parallel_for(threads, groups.size(), 1, control, [&](unsigned, std::size_t i, std::size_t) {
    write_slices(holders, bounds[groups[i].first_part], bounds[groups[i].last_part], counts.view(), writers[i],
                 control);
  });
  return SliceWriter::joined(writers, control);
}

Slices slice_block(const PlaneBlock& block, std::span<const Node> bounds, Control& control) {
  struct Run {  // the entries of one node and distance
    Distance distance;
    std::span<const std::uint16_t> hubs;
  };
  const std::size_t pieces = num_pieces(bounds.back());
  std::vector<SliceWriter> writers;
  SliceWriter& out = writers.emplace_back(bounds, 0, bounds.size() - 1, control);
  std::array<std::uint32_t, kPieceNodes + 1> ends;  // of the runs of each node of a piece
  std::vector<Run> runs;
  DecodedLabel label;
  // A piece has few nodes, whose entries of each level lie together: all of this stays in the cache.
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    control.check();
    const auto begin = static_cast<Node>(piece * kPieceNodes);
    auto each_run = [&](auto&& visit) {
      for (Distance distance = 1; distance <= block.num_levels; ++distance) {
        const std::size_t mark = (distance - 1) * pieces + piece;
        const PlaneBlock::Mark from = mark == 0 ? PlaneBlock::Mark{0, 0} : block.marks[mark - 1];
        std::size_t at = from.hubs_end;
        for (std::size_t item = from.nodes_end; item < block.marks[mark].nodes_end; ++item) {
          visit(block.nodes[item] - begin, Run{distance, {block.local_hubs.data() + at, block.counts[item]}});
          at += block.counts[item];
        }
      }
    };
    ends.fill(0);
    each_run([&](Node local, const Run&) { ++ends[local + 1]; });
    for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
    runs.resize(ends.back());
    std::array<std::uint32_t, kPieceNodes + 1> cursors = ends;
    each_run([&](Node local, const Run& run) { runs[cursors[local]++] = run; });
    for (Node local = 0; local < kPieceNodes; ++local) {
      if (ends[local] == ends[local + 1]) continue;
      label.begin(0);
      for (std::uint32_t i = ends[local]; i < ends[local + 1]; ++i) {
        label.hubs.insert(label.hubs.end(), runs[i].hubs.begin(), runs[i].hubs.end());
        label.end_segment(runs[i].distance);
      }
      out.add(begin + local, label.view());
    }
  }
  out.close();
  return SliceWriter::joined(writers, control);
}

}  // namespace dhilgt
