#include "labels/holders.h"

#include <algorithm>

#include "labels/gather.h"
#include "base/parallel.h"

namespace dhilgt {
namespace {

struct Run {  // one segment of one node
  Distance distance;
  Node node;
  Offset begin;
  Node count;
};

// All segments by (distance, node): writing them out in this order leaves every holder list sorted.
Buffer<Run> runs_by_distance(const LabelSet& labels, Control& control) {
  const Distance longest = labels.max_distance();
  Buffer<Offset> start(&control);
  start.assign(std::size_t{longest} + 2, 0);
  for (const Segment& segment : labels.segments) ++start[std::size_t{segment.distance} + 1];
  sum_up(start);
  Buffer<Run> runs(&control, labels.segments.size());
  for (Node node = 0; node < labels.num_nodes(); ++node) {
    Node begin = 0;
    for (const Segment& segment : labels.of(node).segments) {
      runs[start[segment.distance]++] = {segment.distance, node, labels.entry_offsets[node] + begin,
                                         segment.end - begin};
      begin = segment.end;
    }
  }
  return runs;
}

}  // namespace

LabelSet turn_around(const LabelSet& labels, unsigned threads, Control& control) {
  const Node n = labels.num_nodes();
  LabelSet holders(n, control);
  holders.entry_offsets.assign(std::size_t{n} + 1, 0);
  holders.segment_offsets.assign(std::size_t{n} + 1, 0);
  for (const Node hub : labels.hubs) ++holders.entry_offsets[std::size_t{hub} + 1];
  sum_up(holders.entry_offsets);
  holders.hubs.resize(labels.hubs.size());
  const Buffer<Run> runs = runs_by_distance(labels, control);

  // Workers own ranges of hubs with about equal numbers of entries; each reads all runs and takes the
  // part of every run that falls into its range.
  const std::size_t parts = std::max(1u, threads);
  Buffer<Node> bounds(&control);
  for (std::size_t part = 0; part <= parts; ++part) {
    const Offset target = labels.hubs.size() * part / parts;
    const auto at = std::lower_bound(holders.entry_offsets.begin(), holders.entry_offsets.end() - 1, target);
    bounds.push_back(part == parts ? n : static_cast<Node>(at - holders.entry_offsets.begin()));
  }
  Buffer<Offset> cursor(&control);
  cursor.append(holders.entry_offsets.data(), n);
  Buffer<Distance> last(&control);
  last.assign(n, kUnreachable);
  auto each_entry = [&](std::size_t part, auto&& visit) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if ((i & 0xFFFF) == 0) control.check();
      const Run& run = runs[i];
      const Node* hub = labels.hubs.data() + run.begin;
      const Node* const end = hub + run.count;
      if (bounds[part] > 0) hub = std::lower_bound(hub, end, bounds[part]);
      for (; hub < end && *hub < bounds[part + 1]; ++hub) visit(run, *hub);
    }
  };
  parallel_for(threads, parts, 1, control, [&](unsigned, std::size_t part, std::size_t) {
    each_entry(part, [&](const Run& run, Node hub) {
      holders.hubs[cursor[hub]++] = run.node;
      if (last[hub] != run.distance) {
        last[hub] = run.distance;
        ++holders.segment_offsets[std::size_t{hub} + 1];
      }
    });
  });
  sum_up(holders.segment_offsets);
  holders.segments.resize(holders.segment_offsets[n]);
  cursor.clear();
  last.assign(n, kUnreachable);
  Buffer<Node> seen(&control);  // entries of the hub passed so far
  seen.assign(n, 0);
  Buffer<std::uint32_t> open(&control);
  open.assign(n, 0);
  parallel_for(threads, parts, 1, control, [&](unsigned, std::size_t part, std::size_t) {
    each_entry(part, [&](const Run& run, Node hub) {
      if (last[hub] != run.distance) {
        last[hub] = run.distance;
        ++open[hub];
      }
      holders.segments[holders.segment_offsets[hub] + open[hub] - 1] = {run.distance, ++seen[hub]};
    });
  });
  return holders;
}

}  // namespace dhilgt
