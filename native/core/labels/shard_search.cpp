// search_hubs: the inverted labels of a range of hubs.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/planes.h"
#include "labels/records.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

constexpr Node kHubsPerTask = 64;  // hub by hub: the least that a thread takes

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

// Calls visit(distance, node, local hub) for all entries of a block, by distance, node, hub.
template <class Visit>
void each_entry(const PlaneBlock& block, Node num_nodes, Visit&& visit) {
  const std::size_t pieces = num_pieces(num_nodes);
  std::size_t item = 0;
  std::size_t at = 0;
  for (Distance distance = 1; distance <= block.num_levels; ++distance) {
    for (; item < block.marks[distance * pieces - 1].nodes_end; ++item) {
      for (std::uint16_t k = 0; k < block.counts[item]; ++k) visit(distance, block.nodes[item], block.local_hubs[at++]);
    }
  }
}

// Regroups a block by hub. Some hubs at a time, so that this takes little more memory than the block.
void rows_of_block(const PlaneBlock& block, Node num_nodes, RowWriter& rows, Control& control) {
  struct Entry {
    Distance distance;
    Node node;
  };
  const Node num_hubs = block.last_hub - block.first_hub;
  const Charge row_memory(control, std::uint64_t{num_nodes} * sizeof(Node));  // one hub may have all nodes
  std::vector<std::size_t> ends(num_hubs + 1, 0);
  for (const std::uint16_t hub : block.local_hubs) ++ends[std::size_t{hub} + 1];
  for (Node hub = 0; hub < num_hubs; ++hub) ends[hub + 1] += ends[hub];
  const std::size_t most = block.local_hubs.size() / 4 + kPieceNodes;
  Buffer<Entry> entries(&control);
  DecodedLabel row;
  for (Node begin = 0; begin < num_hubs;) {
    Node end = begin + 1;
    while (end < num_hubs && ends[end + 1] - ends[begin] <= most) ++end;
    control.check();
    entries.resize(ends[end] - ends[begin]);
    std::vector<std::size_t> cursors(ends.begin() + begin, ends.begin() + end);
    each_entry(block, num_nodes, [&](Distance distance, Node node, std::uint16_t hub) {
      if (hub >= begin && hub < end) entries[cursors[hub - begin]++ - ends[begin]] = {distance, node};
    });
    for (Node hub = begin; hub < end; ++hub) {
      row.hubs.assign(1, block.first_hub + hub);
      row.segments.assign(1, {0, 1});
      for (std::size_t i = ends[hub] - ends[begin]; i < ends[hub + 1] - ends[begin]; ++i) {
        row.hubs.push_back(entries[i].node);
        if (row.segments.back().distance != entries[i].distance) row.segments.push_back({entries[i].distance, 0});
        row.segments.back().end = static_cast<Node>(row.hubs.size());
      }
      rows.add(row.view());
    }
    begin = end;
  }
}

// Hub by hub and without a table.
void rows_one_by_one(const HubRange& range, const ArcsView& push, Node first, Node last, RowWriter& rows,
                     Control& control) {
  const TopTable<std::uint16_t> none;
  HubSearcher<std::uint8_t, std::uint16_t> searcher(range.num_nodes, none, control);
  DecodedLabel row;
  for (Node hub = first; hub < last; ++hub) {
    searcher.find(push, hub, range.radius, row, control);
    rows.add(row.view());
  }
  rows.num_arcs += searcher.num_arcs();
}

HolderRows joined(std::vector<RowWriter>& tasks, Control& control) {
  HolderRows rows{{Buffer<Offset>(&control), Buffer<std::uint8_t>(&control)}};
  rows.packed.offsets.push_back(0);
  for (RowWriter& task : tasks) {
    for (const Offset size : task.sizes) rows.packed.offsets.push_back(size);
    if (rows.packed.bytes.empty()) rows.packed.bytes.swap(task.bytes);
    else rows.packed.bytes.append(task.bytes.data(), task.bytes.size());
    task.bytes.clear();
    rows.num_entries += task.num_entries;
    rows.max_distance = std::max(rows.max_distance, task.max_distance);
    rows.num_arcs += task.num_arcs;
  }
  counts_to_offsets(rows.packed.offsets);
  return rows;
}

std::vector<RowWriter> tasks_for(Node num_hubs, Node per_task, Control& control) {
  std::vector<RowWriter> tasks;
  for (std::size_t i = 0; i < num_hubs; i += per_task) tasks.emplace_back(control);
  return tasks;
}

HolderRows search_by_planes(const HubRange& range, const ArcsView& push, const ArcsView& pull,
                            Control& control) {
  const Node per_task = range.plane_words * 64;
  std::vector<RowWriter> tasks = tasks_for(range.last - range.first, per_task, control);
  {
    std::vector<std::unique_ptr<PlaneWorker>> workers(range.threads);
    parallel_for(range.threads, tasks.size(), 1, control, [&](unsigned worker, std::size_t i, std::size_t) {
      if (!workers[worker]) {
        workers[worker] = std::make_unique<PlaneWorker>(range.num_nodes, control, range.plane_words);
      }
      const Node first = range.first + static_cast<Node>(i) * per_task;
      const Node last = std::min(range.last, first + per_task);
      const Distance levels = std::min(range.radius, kMostPlaneLevels);
      const PlaneBlock block = workers[worker]->run(pull, first, last, levels, control);
      tasks[i].num_arcs += block.num_arcs;
      if (block.complete || range.radius <= kMostPlaneLevels) {
        rows_of_block(block, range.num_nodes, tasks[i], control);
      } else {
        rows_one_by_one(range, push, first, last, tasks[i], control);
      }
      control.entries.fetch_add(tasks[i].num_entries, std::memory_order_relaxed);
    });
  }
  return joined(tasks, control);
}

template <class Mark, class Word>
HolderRows search_one_by_one(const HubRange& range, const ArcsView& push, const TopTable<Word>& top,
                             Control& control) {
  std::vector<RowWriter> tasks = tasks_for(range.last - range.first, kHubsPerTask, control);
  using Searcher = HubSearcher<Mark, Word>;
  std::vector<std::unique_ptr<Searcher>> workers(range.threads);
  parallel_for(range.threads, tasks.size(), 1, control, [&](unsigned worker, std::size_t i, std::size_t) {
    if (!workers[worker]) workers[worker] = std::make_unique<Searcher>(range.num_nodes, top, control);
    const Node first = range.first + static_cast<Node>(i) * kHubsPerTask;
    const Node last = std::min(range.last, first + kHubsPerTask);
    DecodedLabel row;
    for (Node hub = first; hub < last; ++hub) {
      workers[worker]->find(push, hub, range.radius, row, control);
      tasks[i].add(row.view());
    }
    control.entries.fetch_add(tasks[i].num_entries, std::memory_order_relaxed);
  });
  std::uint64_t num_arcs = 0;
  std::uint64_t num_tests = 0;
  for (auto& worker : workers) {
    if (!worker) continue;
    num_arcs += worker->num_arcs();
    num_tests += worker->num_tests();
    worker.reset();
  }
  HolderRows rows = joined(tasks, control);
  rows.num_arcs = num_arcs;
  rows.num_tests = num_tests;
  return rows;
}

}  // namespace

template <class Word>
HolderRows search_hubs(const HubRange& range, const ArcsView& push, const ArcsView& pull,
                       const TopTable<Word>& top, Control& control) {
  if (range.plane_words != 0) return search_by_planes(range, push, pull, control);
  // A table of marks in bytes stays in the cache.
  if (2 * std::uint64_t{top.max_distance} + 1 < 255) {
    return search_one_by_one<std::uint8_t>(range, push, top, control);
  }
  return search_one_by_one<std::uint32_t>(range, push, top, control);
}

template HolderRows search_hubs(const HubRange&, const ArcsView&, const ArcsView&,
                                const TopTable<std::uint16_t>&, Control&);
template HolderRows search_hubs(const HubRange&, const ArcsView&, const ArcsView&,
                                const TopTable<std::uint32_t>&, Control&);

}  // namespace dhilgt
