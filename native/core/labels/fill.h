// Builds a LabelSet in two passes over its entries: count them, turn counts into offsets, write them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/buffer.h"
#include "base/control.h"
#include "base/parallel.h"
#include "base/types.h"
#include "labels/set.h"

namespace dhilgt {

// Turns counts (that of item i at index i + 1, index 0 being 0) into offsets.
inline void counts_to_offsets(Buffer<Offset>& counts) {
  for (std::size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
}

// How far the label of one node is counted or written.
struct LabelCursor {
  Distance distance = kUnreachable;  // of the last entry
  Node entries = 0;
  Node segments = 0;

  void add(Distance next_distance, std::size_t count) {
    entries += static_cast<Node>(count);
    segments += next_distance != distance;
    distance = next_distance;
  }
};

struct NoRelease {
  void operator()(Node) const {}
};

// visit(begin, end, emit) must call emit(node, distance, hubs) for all entries of the nodes [begin, end):
// those of one node by ascending distance, then hub; nodes may come in any order and hubs of one distance
// in several calls. `hubs` is any sized range. It is called twice for every range
// [bounds[i], bounds[i + 1]), each time by one worker, and must emit the same entries both times.
// release(begin) is called when the range that starts at `begin` is complete.
template <class Visit, class Release = NoRelease>
LabelSet fill_label_set(std::span<const Node> bounds, unsigned threads, Control& control, Visit&& visit,
                        Release&& release = {}) {
  const Node num_nodes = bounds.back();
  const std::size_t num_ranges = bounds.size() - 1;
  LabelSet set(num_nodes, control);
  set.entry_offsets[0] = set.segment_offsets[0] = 0;
  parallel_for(threads, num_ranges, 1, control, [&](unsigned, std::size_t range, std::size_t) {
    const Node begin = bounds[range];
    const Node end = bounds[range + 1];
    Buffer<LabelCursor> cursors(&control);
    cursors.assign(end - begin, {});
    visit(begin, end, [&](Node node, Distance distance, const auto& hubs) {
      cursors[node - begin].add(distance, hubs.size());
    });
    for (Node node = begin; node < end; ++node) {
      set.entry_offsets[node + 1] = cursors[node - begin].entries;
      set.segment_offsets[node + 1] = cursors[node - begin].segments;
    }
  });
  counts_to_offsets(set.entry_offsets);
  counts_to_offsets(set.segment_offsets);
  set.hubs.resize(set.entry_offsets[num_nodes]);
  set.segments.resize(set.segment_offsets[num_nodes]);
  parallel_for(threads, num_ranges, 1, control, [&](unsigned, std::size_t range, std::size_t) {
    const Node begin = bounds[range];
    const Node end = bounds[range + 1];
    Buffer<LabelCursor> cursors(&control);
    cursors.assign(end - begin, {});
    visit(begin, end, [&](Node node, Distance distance, const auto& hubs) {
      LabelCursor& cursor = cursors[node - begin];
      Node* out = set.hubs.data() + set.entry_offsets[node] + cursor.entries;
      for (const auto hub : hubs) *out++ = hub;
      cursor.add(distance, hubs.size());
      set.segments[set.segment_offsets[node] + cursor.segments - 1] = {distance, cursor.entries};
    });
    release(begin);
  });
  return set;
}

// The same with one range for each piece of nodes.
template <class Visit, class Release = NoRelease>
LabelSet fill_label_set(Node num_nodes, unsigned threads, Control& control, Visit&& visit,
                        Release&& release = {}) {
  Buffer<Node> bounds(&control, num_pieces(num_nodes) + 1);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = static_cast<Node>(std::min<std::size_t>(num_nodes, i * kPieceNodes));
  }
  return fill_label_set(bounds.view(), threads, control, std::forward<Visit>(visit),
                        std::forward<Release>(release));
}

}  // namespace dhilgt
