// Hub labels of all nodes, in rank space.
//
// The label of a node is a list of segments, one per distance in ascending order; within a segment
// hubs ascend. A distance is stored once per segment instead of once per entry, distances of any length
// are exact, and equal labels have equal bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/segment.h"

namespace dhilgt {

struct LabelView {
  std::span<const Node> hubs;
  std::span<const Segment> segments;

  // Calls visit(distance, hubs of that distance), nearest first.
  template <class Visit>
  void each_segment(Visit&& visit) const {
    Node begin = 0;
    for (const Segment& segment : segments) {
      visit(segment.distance, hubs.subspan(begin, segment.end - begin));
      begin = segment.end;
    }
  }
};

struct LabelSet {
  Buffer<Offset> entry_offsets;    // n + 1
  Buffer<Offset> segment_offsets;  // n + 1
  Buffer<Segment> segments;
  Buffer<Node> hubs;

  LabelSet() = default;
  LabelSet(Node num_nodes, Control& control)
      : entry_offsets(&control, std::size_t{num_nodes} + 1),
        segment_offsets(&control, std::size_t{num_nodes} + 1),
        segments(&control),
        hubs(&control) {}

  Node num_nodes() const { return static_cast<Node>(entry_offsets.size() - 1); }
  Offset num_entries() const { return hubs.size(); }
  Distance max_distance() const {
    Distance longest = 0;
    for (const Segment& segment : segments) longest = std::max(longest, segment.distance);
    return longest;
  }
  std::uint64_t num_bytes() const {
    return entry_offsets.capacity_bytes() + segment_offsets.capacity_bytes() +
           segments.capacity_bytes() + hubs.capacity_bytes();
  }

  LabelView of(Node rank) const {
    const Offset entry = entry_offsets[rank];
    const Offset segment = segment_offsets[rank];
    return {{hubs.data() + entry, static_cast<std::size_t>(entry_offsets[rank + 1] - entry)},
            {segments.data() + segment,
             static_cast<std::size_t>(segment_offsets[rank + 1] - segment)}};
  }

  void detach() {
    entry_offsets.detach();
    segment_offsets.detach();
    segments.detach();
    hubs.detach();
  }
};

// Labels of a graph. `in` holds hubs that reach the node, `out` hubs the node reaches;
// on an undirected graph they are the same, and only `in` is stored.
struct Labels {
  bool directed = false;
  LabelSet in;
  LabelSet out;

  const LabelSet& in_labels() const { return in; }
  const LabelSet& out_labels() const { return directed ? out : in; }
};

}  // namespace dhilgt
