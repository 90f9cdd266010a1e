// Entries of ranges of hubs, cut by node and merged again.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/groups.h"
#include "labels/records.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

struct Entry {
  Distance distance;
  Node hub;  // counted from the first of its range
};

constexpr std::size_t kEntriesPerPass = std::size_t{1} << 22;  // 32 MB

// Consecutive slices, in the making.
struct SliceWriter {
  SliceWriter(std::size_t first, std::size_t last, Control& control)
      : first_part(first), last_part(last), ends(&control), bytes(&control) {}
  std::size_t first_part;
  std::size_t last_part;
  Buffer<Offset> ends;
  Buffer<std::uint8_t> bytes;
};

// Writes the slices of some parts; `counts` has the number of entries of each node.
void write_slices(const PackedView& holders, std::span<const Node> bounds, std::span<const Node> counts,
                  SliceWriter& out, Control& control) {
  const Node begin = bounds[out.first_part];
  const Node end = bounds[out.last_part];
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
  for (std::size_t part = out.first_part; part < out.last_part; ++part) {
    Node before = bounds[part];
    for (Node node = bounds[part]; node < bounds[part + 1]; ++node) {
      if ((node & 0xFFFF) == 0) control.check();
      const std::size_t stop = cursors[node - begin];  // has moved to where the next node begins
      if (at == stop) continue;
      std::stable_sort(entries.begin() + at, entries.begin() + stop,  // hubs ascend already
                       [](const Entry& a, const Entry& b) { return a.distance < b.distance; });
      row.hubs.assign(1, 0);
      row.segments.assign(1, {0, 1});
      for (; at < stop; ++at) {
        row.hubs.push_back(entries[at].hub);
        if (row.segments.back().distance != entries[at].distance) row.segments.push_back({entries[at].distance, 0});
        row.segments.back().end = static_cast<Node>(row.hubs.size());
      }
      append_varint(out.bytes, node - before);
      append_record(out.bytes, row.view());
      before = node;
    }
    out.ends.push_back(out.bytes.size());
  }
}

// Groups of parts that are written together: every hub is decoded once per group, so there are few, but the
// entries of a group are all in memory.
std::vector<SliceWriter> slice_groups(std::span<const Node> bounds, std::span<const Node> counts,
                                      unsigned threads, Control& control) {
  const std::size_t num_parts = bounds.size() - 1;
  const std::size_t most_parts = threads > 1 ? std::max<std::size_t>(1, num_parts / threads) : num_parts;
  std::vector<SliceWriter> groups;
  std::size_t entries = 0;
  for (std::size_t part = 0; part < num_parts; ++part) {
    std::size_t added = 0;
    for (Node node = bounds[part]; node < bounds[part + 1]; ++node) added += counts[node];
    const bool fits = !groups.empty() && entries + added <= kEntriesPerPass &&
                      part - groups.back().first_part < most_parts;
    if (!fits) {
      groups.emplace_back(part, part, control);
      entries = 0;
    }
    entries += added;
    groups.back().last_part = part + 1;
  }
  return groups;
}

// One slice, read node by node.
class SliceCursor {
 public:
  SliceCursor(const Slice& slice, Node begin, Node end, Node num_nodes)
      : slice_(slice), reader_(slice.bytes, begin), node_(begin), end_(end), num_nodes_(num_nodes) {}

  // Moves to the next node; returns false after the last one.
  bool next() {
    if (reader_.bytes_left() == 0) return false;
    const std::uint32_t step = reader_.next();
    if (step >= end_ - node_ || (started_ && step == 0)) throw BadPacking(node_, "slice leaves its range");
    started_ = true;
    node_ += step;
    const Node num_hubs = slice_.last_hub - slice_.first_hub;
    read_record(reader_, node_, num_hubs, num_nodes_, std::uint64_t{num_hubs} + 1, row_);
    return true;
  }
  Node node() const { return node_; }
  Node first_hub() const { return slice_.first_hub; }
  LabelView row() const { return row_.view(); }

 private:
  const Slice slice_;
  RecordReader reader_;
  Node node_;
  const Node end_;
  const Node num_nodes_;
  bool started_ = false;
  DecodedLabel row_;
};

// Calls visit(node, label) for the nodes [begin, end) in order; the label has its self entry.
template <class Visit>
void each_merged(std::span<const Slice> slices, Node begin, Node end, Node num_nodes, Control& control,
                 Visit&& visit) {
  struct Run {  // hubs of one distance from one slice
    Distance distance;
    Node first_hub;
    std::span<const Node> hubs;
  };
  std::vector<SliceCursor> cursors;
  cursors.reserve(slices.size());
  using Place = std::pair<Node, std::size_t>;  // the next node of a slice; slices ascend by hub
  std::priority_queue<Place, std::vector<Place>, std::greater<>> places;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    cursors.emplace_back(slices[i], begin, end, num_nodes);
    if (cursors[i].next()) places.emplace(cursors[i].node(), i);
  }
  std::vector<std::size_t> here;
  std::vector<Run> runs;
  DecodedLabel label;
  for (Node node = begin; node < end; ++node) {
    if ((node & 0xFFF) == 0) control.check();
    here.clear();
    runs.clear();
    while (!places.empty() && places.top().first == node) {
      here.push_back(places.top().second);
      places.pop();
    }
    for (const std::size_t i : here) {
      cursors[i].row().each_segment([&](Distance distance, std::span<const Node> hubs) {
        if (distance > 0) runs.push_back({distance, cursors[i].first_hub(), hubs});
      });
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const Run& a, const Run& b) { return a.distance < b.distance; });
    label.hubs.assign(1, node);
    label.segments.assign(1, {0, 1});
    for (const Run& run : runs) {
      for (const Node hub : run.hubs) label.hubs.push_back(run.first_hub + hub);
      if (label.segments.back().distance != run.distance) label.segments.push_back({run.distance, 0});
      label.segments.back().end = static_cast<Node>(label.hubs.size());
    }
    visit(node, label.view());
    for (const std::size_t i : here) {
      if (cursors[i].next()) places.emplace(cursors[i].node(), i);
    }
  }
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
  std::vector<SliceWriter> groups = slice_groups(bounds, counts.view(), threads, control);
  parallel_for(threads, groups.size(), 1, control, [&](unsigned, std::size_t group, std::size_t) {
    write_slices(holders, bounds, counts.view(), groups[group], control);
  });
  counts.clear();
  Slices slices{Buffer<Offset>(&control), Buffer<std::uint8_t>(&control)};
  slices.offsets.push_back(0);
  for (SliceWriter& group : groups) {
    const Offset before = slices.bytes.size();
    for (const Offset end : group.ends) slices.offsets.push_back(before + end);
    if (before == 0) slices.bytes.swap(group.bytes);
    else slices.bytes.append(group.bytes.data(), group.bytes.size());
    group.bytes.clear();
  }
  return slices;
}

MergedRows merge_slices(std::span<const Slice> slices, Node begin, Node end, Node num_nodes, Control& control) {
  MergedRows rows{{Buffer<Offset>(&control), Buffer<std::uint8_t>(&control)}};
  rows.packed.offsets.reserve_more(std::size_t{end} - begin + 1);
  rows.packed.offsets.push_back(0);
  each_merged(slices, begin, end, num_nodes, control, [&](Node, const LabelView& label) {
    append_record(rows.packed.bytes, label);
    rows.packed.offsets.push_back(rows.packed.bytes.size());
    rows.num_entries += label.hubs.size() - 1;
    rows.max_distance = std::max(rows.max_distance, label.segments.back().distance);
  });
  rows.packed.bytes.shrink_to_fit();
  return rows;
}

template <class Word>
TopRows<Word> group_slices(const std::vector<std::vector<Slice>>& slices, std::span<const Node> bounds,
                           Control& control) {
  TopRows<Word> rows{Buffer<Offset>(&control), Buffer<Word>(&control)};
  rows.starts.reserve_more(std::size_t{bounds.back()} + 1);
  rows.starts.push_back(0);
  for (std::size_t part = 0; part < slices.size(); ++part) {
    each_merged(slices[part], bounds[part], bounds[part + 1], bounds.back(), control,
                [&](Node, const LabelView& label) {
                  std::size_t groups = 0;
                  label.each_segment([&](Distance distance, std::span<const Node> hubs) {
                    if (distance > 0) groups += groups_for(hubs.size());
                  });
                  const std::size_t before = rows.words.size();
                  if (groups > 0) rows.words.reserve_more(groups * kGroupWords);
                  rows.words.resize(before + groups * kGroupWords);
                  GroupWriter<Word> writer(rows.words.data() + before);
                  label.each_segment([&](Distance distance, std::span<const Node> hubs) {
                    if (distance == 0) return;
                    for (const Node hub : hubs) writer.add(distance, static_cast<Word>(hub));
                  });
                  rows.starts.push_back(rows.words.size() / kGroupWords);
                });
  }
  rows.words.shrink_to_fit();
  return rows;
}

template TopRows<std::uint16_t> group_slices(const std::vector<std::vector<Slice>>&, std::span<const Node>,
                                             Control&);
template TopRows<std::uint32_t> group_slices(const std::vector<std::vector<Slice>>&, std::span<const Node>,
                                             Control&);

}  // namespace dhilgt
