// Entries of ranges of hubs, merged by node.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/groups.h"
#include "labels/records.h"
#include "labels/row_writer.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

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

// Hubs of one distance from one slice.
struct Run {
  Distance distance;
  Node first_hub;
  std::span<const Node> hubs;
};

// Sorts runs by distance; those of one distance keep their order. Nearly all distances are short.
class RunSorter {
 public:
  std::span<const Run> sorted(std::vector<Run>& runs) {
    Distance longest = 0;
    for (const Run& run : runs) longest = std::max(longest, run.distance);
    if (longest >= kShort) {
      std::stable_sort(runs.begin(), runs.end(),
                       [](const Run& a, const Run& b) { return a.distance < b.distance; });
      return runs;
    }
    std::fill_n(ends_, longest + 2, 0);
    for (const Run& run : runs) ++ends_[run.distance + 1];
    for (Distance distance = 0; distance <= longest; ++distance) ends_[distance + 1] += ends_[distance];
    sorted_.resize(runs.size());
    for (const Run& run : runs) sorted_[ends_[run.distance]++] = run;
    return sorted_;
  }

 private:
  static constexpr Distance kShort = 64;
  std::uint32_t ends_[kShort + 1];
  std::vector<Run> sorted_;
};

// Calls visit(node, label) for the nodes [begin, end) in order; the label has its self entry.
template <class Visit>
void each_merged(std::span<const Slice> slices, Node begin, Node end, Node num_nodes, Control& control,
                 Visit&& visit) {
  std::vector<SliceCursor> cursors;
  std::vector<Node> next_nodes;  // of each slice; `end` after its last one
  cursors.reserve(slices.size());
  for (const Slice& slice : slices) {
    SliceCursor& cursor = cursors.emplace_back(slice, begin, end, num_nodes);
    next_nodes.push_back(cursor.next() ? cursor.node() : end);
  }
  std::vector<std::size_t> here;
  std::vector<Run> runs;
  RunSorter sorter;
  DecodedLabel label;
  for (Node node = begin; node < end; ++node) {
    if ((node & 0xFFF) == 0) control.check();
    here.clear();
    runs.clear();
    for (std::size_t i = 0; i < next_nodes.size(); ++i) {  // slices ascend by hub
      if (next_nodes[i] != node) continue;
      here.push_back(i);
      cursors[i].row().each_segment([&](Distance distance, std::span<const Node> hubs) {
        if (distance > 0) runs.push_back({distance, cursors[i].first_hub(), hubs});
      });
    }
    label.begin(node);
    for (const Run& run : sorter.sorted(runs)) {
      for (const Node hub : run.hubs) label.hubs.push_back(run.first_hub + hub);
      label.end_segment(run.distance);
    }
    visit(node, label.view());
    for (const std::size_t i : here) next_nodes[i] = cursors[i].next() ? cursors[i].node() : end;
  }
}

}  // namespace

PackedRows merge_slices(std::span<const Slice> slices, Node begin, Node end, Node num_nodes, Control& control) {
  std::vector<RowWriter> writers;
  RowWriter& rows = writers.emplace_back(control);
  each_merged(slices, begin, end, num_nodes, control, [&](Node, const LabelView& label) { rows.add(label); });
  return joined_rows(writers, control);
}

template <class Word>
TopRows<Word> group_slices(std::span<const Slice> slices, Node begin, Node end, Node num_nodes,
                           Control& control) {
  TopRows<Word> rows{Buffer<Offset>(&control), Buffer<Word>(&control)};
  rows.starts.reserve_more(std::size_t{end} - begin + 1);
  rows.starts.push_back(0);
  each_merged(slices, begin, end, num_nodes, control, [&](Node, const LabelView& label) {
    std::size_t groups = 0;
    label.each_segment([&](Distance distance, std::span<const Node> hubs) {
      if (distance > 0) groups += groups_for(hubs.size());
    });
    const std::size_t before = rows.words.size();
    rows.words.reserve_more(groups * kGroupWords);
    rows.words.resize(before + groups * kGroupWords);
    GroupWriter<Word> writer(rows.words.data() + before);
    label.each_segment([&](Distance distance, std::span<const Node> hubs) {
      if (distance == 0) return;
      for (const Node hub : hubs) writer.add(distance, static_cast<Word>(hub));
    });
    rows.starts.push_back(rows.words.size() / kGroupWords);
  });
  rows.words.shrink_to_fit();
  return rows;
}

template TopRows<std::uint16_t> group_slices(std::span<const Slice>, Node, Node, Node, Control&);
template TopRows<std::uint32_t> group_slices(std::span<const Slice>, Node, Node, Node, Control&);

}  // namespace dhilgt
