// search_hubs: the entries of a range of hubs.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/planes.h"
#include "labels/row_writer.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

constexpr Node kHubsPerTask = 64;  // hub by hub: the least that a thread takes

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

void rows_of_block(const PlaneBlock& block, Node num_nodes, RowWriter& rows, Control& control) {
  const Node num_hubs = block.last_hub - block.first_hub;
  std::vector<std::size_t> ends(num_hubs + 1, 0);
  for (const std::uint16_t hub : block.local_hubs) ++ends[std::size_t{hub} + 1];
  write_rows(block.first_hub, num_nodes, ends, rows, control,
             [&](auto&& visit) { each_entry(block, num_nodes, visit); });
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

std::vector<RowWriter> tasks_for(Node num_hubs, Node per_task, Control& control) {
  std::vector<RowWriter> tasks;
  for (std::size_t i = 0; i < num_hubs; i += per_task) tasks.emplace_back(control);
  return tasks;
}

Slices slices_of(const PackedRows& rows, const HubRange& range, std::span<const Node> bounds, Control& control) {
  const PackedView view(range.num_nodes, {{range.first, rows.packed.offsets.view(), rows.packed.bytes.view()}});
  return slice_by_node(view, bounds, range.threads, control);
}

HubShard search_by_planes(const HubRange& range, const ArcsView& push, const ArcsView& pull,
                          std::span<const Node> bounds, Control& control) {
  const Node per_task = range.plane_words * 64;
  std::vector<RowWriter> tasks = tasks_for(range.last - range.first, per_task, control);
  HubShard shard;
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
        if (tasks.size() == 1) shard.slices = slice_block(block, bounds, control);
      } else {
        rows_one_by_one(range, push, first, last, tasks[i], control);
      }
      control.entries.fetch_add(tasks[i].num_entries, std::memory_order_relaxed);
    });
  }
  shard.rows = joined_rows(tasks, control);
  if (shard.slices.offsets.empty()) shard.slices = slices_of(shard.rows, range, bounds, control);
  return shard;
}

template <class Mark, class Word>
HubShard search_one_by_one(const HubRange& range, const ArcsView& push, const TopTable<Word>& top,
                           std::span<const Node> bounds, Control& control) {
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
  HubShard shard{joined_rows(tasks, control), {}};
  shard.rows.num_arcs = num_arcs;
  shard.rows.num_tests = num_tests;
  shard.slices = slices_of(shard.rows, range, bounds, control);
  return shard;
}

}  // namespace

template <class Word>
HubShard search_hubs(const HubRange& range, const ArcsView& push, const ArcsView& pull,
                     const TopTable<Word>& top, std::span<const Node> bounds, Control& control) {
  if (range.plane_words != 0) return search_by_planes(range, push, pull, bounds, control);
  // A table of marks in bytes stays in the cache.
  if (2 * std::uint64_t{top.max_distance} + 1 < 255) {
    return search_one_by_one<std::uint8_t>(range, push, top, bounds, control);
  }
  return search_one_by_one<std::uint32_t>(range, push, top, bounds, control);
}

template HubShard search_hubs(const HubRange&, const ArcsView&, const ArcsView&, const TopTable<std::uint16_t>&,
                              std::span<const Node>, Control&);
template HubShard search_hubs(const HubRange&, const ArcsView&, const ArcsView&, const TopTable<std::uint32_t>&,
                              std::span<const Node>, Control&);

}  // namespace dhilgt
