#include "labels/holders.h"

#include <algorithm>
#include <vector>

#include "labels/fill.h"

namespace dhilgt {
namespace {

struct Run {  // one segment of one node
  Distance distance;
  Node node;
  Offset begin;
  Node count;
};

// All segments in order of (distance, node). Inverted in this order, all holder lists are sorted.
Buffer<Run> runs_by_distance(const LabelSet& labels, Control& control) {
  Buffer<Offset> next(&control);  // position of the next run of each distance
  next.assign(std::size_t{labels.max_distance()} + 2, 0);
  for (const Segment& segment : labels.segments) ++next[std::size_t{segment.distance} + 1];
  counts_to_offsets(next);
  Buffer<Run> runs(&control, labels.segments.size());
  for (Node node = 0; node < labels.num_nodes(); ++node) {
    Node begin = 0;
    for (const Segment& segment : labels.of(node).segments) {
      runs[next[segment.distance]++] = {segment.distance, node, labels.entry_offsets[node] + begin,
                                        segment.end - begin};
      begin = segment.end;
    }
  }
  return runs;
}

// Bounds of `count` ranges of hubs that have about the same number of holders.
Buffer<Node> balanced_bounds(const LabelSet& labels, std::size_t count, Control& control) {
  const Node n = labels.num_nodes();
  Buffer<Node> bounds(&control);
  bounds.push_back(0);
  if (count > 1) {
    Buffer<Offset> offsets(&control);
    offsets.assign(std::size_t{n} + 1, 0);
    for (const Node hub : labels.hubs) ++offsets[std::size_t{hub} + 1];
    counts_to_offsets(offsets);
    for (std::size_t i = 1; i < count; ++i) {
      const Offset target = labels.hubs.size() * i / count;
      const auto at = std::lower_bound(offsets.begin(), offsets.end() - 1, target);
      bounds.push_back(static_cast<Node>(at - offsets.begin()));
    }
  }
  bounds.push_back(n);
  return bounds;
}

}  // namespace

LabelSet invert_labels(const LabelSet& labels, unsigned threads, Control& control) {
  const Buffer<Node> bounds = balanced_bounds(labels, std::max(1u, threads), control);
  const Buffer<Run> runs = runs_by_distance(labels, control);
  // Each worker owns a range of hubs, reads all runs and takes the part of each that is in its range.
  return fill_label_set(bounds.view(), threads, control, [&](Node first_hub, Node last_hub, auto&& emit) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if ((i & 0xFFFF) == 0) control.check();
      const Run& run = runs[i];
      const Node* hub = labels.hubs.data() + run.begin;
      const Node* const end = hub + run.count;
      if (first_hub > 0) hub = std::lower_bound(hub, end, first_hub);
      for (; hub < end && *hub < last_hub; ++hub) emit(*hub, run.distance, std::span(&run.node, 1));
    }
  });
}

void join_label(const LabelView& in, const LabelView& out, std::vector<JoinedEntry>& entries) {
  entries.clear();
  for (const LabelView* side : {&in, &out}) {
    side->each_segment([&](Distance distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) entries.push_back({distance, hub});
    });
  }
  std::sort(entries.begin(), entries.end(), [](const JoinedEntry& a, const JoinedEntry& b) {
    return a.hub != b.hub ? a.hub < b.hub : a.distance < b.distance;
  });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const JoinedEntry& a, const JoinedEntry& b) { return a.hub == b.hub; }),
                entries.end());
  std::sort(entries.begin(), entries.end());
}

LabelSet join_labels(const LabelSet& in, const LabelSet& out, unsigned threads, Control& control) {
  return fill_label_set(in.num_nodes(), threads, control, [&](Node begin, Node end, auto&& emit) {
    std::vector<JoinedEntry> entries;
    for (Node node = begin; node < end; ++node) {
      join_label(in.of(node), out.of(node), entries);
      for (const JoinedEntry& entry : entries) emit(node, entry.distance, std::span(&entry.hub, 1));
    }
  });
}

}  // namespace dhilgt
