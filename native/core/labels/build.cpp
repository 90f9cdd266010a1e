#include "labels/build.h"

#include <algorithm>
#include <memory>

#include "base/parallel.h"
#include "labels/gather.h"
#include "labels/pll.h"
#include "labels/tail.h"

namespace dhilgt {
namespace {

// Searches deeper than this are too expensive level by level; Algorithm 1 is used instead.
constexpr Distance kMaxPlaneLevels = 64;
constexpr Node kMaxTopHubs = 65024;          // must fit two bytes; a multiple of kPlaneHubs
constexpr Distance kMaxTopDistance = 65535;  // must fit two bytes

// Rough costs, measured. They affect only the choice of the algorithm, never the result.
double nanoseconds_per_arc(Node num_nodes) {
  const double plane_bytes = 64.0 * num_nodes;
  if (plane_bytes < (1 << 20)) return 2.5;
  return plane_bytes < (8 << 20) ? 5.0 : 14.0;
}
constexpr double kNanosecondsPerTest = 2.5;  // testing a candidate of the tail against one label entry
constexpr double kNanosecondsPerScan = 1.0;  // passing over an arc or node that no hub has reached

struct SideBlocks {
  const Adjacency* pull;
  std::vector<PlaneBlock> blocks;
};

class PlaneStage {
 public:
  PlaneStage(const RankedGraph& graph, Distance radius, unsigned threads, Control& control)
      : graph_(graph), radius_(radius), threads_(threads), control_(control), workers_(threads) {
    sides_.push_back({&graph.backward(), {}});
    if (graph.directed) sides_.push_back({&graph.forward(), {}});
  }

  Node num_hubs() const { return next_hub_; }
  std::vector<SideBlocks>& sides() { return sides_; }
  void free_workers() { workers_.clear(); }

  // Computes the next blocks, up to hub `last`; returns false if a search went deeper than max_levels
  // before it reached the radius.
  bool run(Node last, Distance max_levels) {
    const Distance levels = std::min(max_levels, radius_);
    const std::size_t per_side = (last - next_hub_ + kPlaneHubs - 1) / kPlaneHubs;
    const std::size_t before = sides_[0].blocks.size();
    for (SideBlocks& side : sides_) side.blocks.resize(before + per_side);
    parallel_for(threads_, per_side * sides_.size(), 1, control_,
                 [&](unsigned worker, std::size_t i, std::size_t) {
                   SideBlocks& side = sides_[i % sides_.size()];
                   const std::size_t b = i / sides_.size();
                   const Node first = next_hub_ + static_cast<Node>(b) * kPlaneHubs;
                   if (!workers_[worker]) {
                     workers_[worker] = std::make_unique<PlaneWorker>(graph_.num_nodes, control_);
                   }
                   PlaneBlock& block = side.blocks[before + b];
                   block = workers_[worker]->run(*side.pull, first, std::min(last, first + kPlaneHubs),
                                                 levels, control_);
                   control_.entries.fetch_add(block.local_hubs.size(), std::memory_order_relaxed);
                 });
    next_hub_ = last;
    batch_arcs_ = batch_entries_ = batch_levels_ = 0;
    bool complete = true;
    for (const SideBlocks& side : sides_) {
      for (std::size_t b = before; b < side.blocks.size(); ++b) {
        batch_arcs_ += side.blocks[b].num_arcs;
        batch_entries_ += side.blocks[b].local_hubs.size();
        batch_levels_ += side.blocks[b].num_levels;
        complete &= side.blocks[b].complete || levels == radius_;
      }
    }
    all_entries_ += batch_entries_;
    return complete;
  }

  // Estimates whether the tail would have found the entries of the last batch faster.
  bool tail_is_cheaper() const {
    const double mean_label = 1.0 + static_cast<double>(all_entries_) /
                                        (static_cast<double>(sides_.size()) * graph_.num_nodes);
    const double tail = static_cast<double>(batch_entries_) * kNanosecondsPerTest * mean_label;
    double planes = static_cast<double>(batch_arcs_) * nanoseconds_per_arc(graph_.num_nodes);
    if (radius_ != kUnreachable) {  // it ends before most nodes are reached: most arcs are passed over
      planes += static_cast<double>(batch_levels_) * kNanosecondsPerScan *
                (static_cast<double>(graph_.num_arcs()) + graph_.num_nodes);
    }
    return tail < planes;
  }

 private:
  const RankedGraph& graph_;
  const Distance radius_;
  const unsigned threads_;
  Control& control_;
  std::vector<std::unique_ptr<PlaneWorker>> workers_;
  std::vector<SideBlocks> sides_;
  Node next_hub_ = 0;
  std::uint64_t batch_arcs_ = 0;
  std::uint64_t batch_entries_ = 0;
  std::uint64_t batch_levels_ = 0;
  std::uint64_t all_entries_ = 0;
};

Labels finish_all_planes(const RankedGraph& graph, PlaneStage& stage, unsigned threads, Control& control) {
  stage.free_workers();
  Labels labels;
  labels.directed = graph.directed;
  labels.in = gather_labels(graph.num_nodes, stage.sides()[0].blocks, threads, control);
  stage.sides()[0].blocks.clear();
  if (graph.directed) labels.out = gather_labels(graph.num_nodes, stage.sides()[1].blocks, threads, control);
  return labels;
}

Labels finish_with_tail(const RankedGraph& graph, PlaneStage& stage, const BuildOptions& options,
                        Control& control) {
  stage.free_workers();
  GroupedLabels<std::uint16_t> top[2];
  for (std::size_t s = 0; s < stage.sides().size(); ++s) {
    top[s] = gather_top(graph.num_nodes, stage.sides()[s].blocks, options.threads, control);
    stage.sides()[s].blocks.clear();
  }
  return label_tail(graph, stage.num_hubs(), std::move(top[0]), std::move(top[1]), options.max_distance,
                    options.threads, control);
}

Labels tail_only(const RankedGraph& graph, const BuildOptions& options, Control& control) {
  return label_tail(graph, 0, {}, {}, options.max_distance, options.threads, control);
}

// The planes of a worker take a few hundred bytes per node: on a huge graph there are fewer workers or none.
unsigned plane_workers(const RankedGraph& graph, unsigned threads, const Control& control) {
  const std::uint64_t budget = control.free_bytes() / 4;
  const std::uint64_t max_workers = budget / PlaneWorker::bytes_for(graph.num_nodes);
  return static_cast<unsigned>(std::min<std::uint64_t>(threads, max_workers));
}

Labels build_automatic(const RankedGraph& graph, const BuildOptions& options, Control& control) {
  const Node n = graph.num_nodes;
  const unsigned workers = plane_workers(graph, options.threads, control);
  const Node max_hubs = std::min(options.plane_hubs, n);
  if (graph.num_arcs() == 0 || workers == 0 || max_hubs == 0) {
    return tail_only(graph, options, control);
  }
  const bool use_cost_model = options.plane_hubs == kPlanHubs;
  const Distance max_levels = use_cost_model   ? kMaxPlaneLevels
                              : max_hubs == n ? kUnreachable
                                              : kMaxTopDistance;
  const Node batch = std::clamp(workers, 4u, kMaxTopHubs / kPlaneHubs) * kPlaneHubs;
  {
    PlaneStage stage(graph, options.max_distance, workers, control);
    bool shallow = true;
    while (stage.num_hubs() < max_hubs) {
      Node last = std::min(max_hubs, stage.num_hubs() + batch);
      if (last < n) last = std::min(last, kMaxTopHubs);
      if (last == stage.num_hubs()) break;
      shallow = stage.run(last, max_levels);
      if (!shallow || (use_cost_model && stage.tail_is_cheaper())) break;
    }
    if (shallow && stage.num_hubs() == n) return finish_all_planes(graph, stage, options.threads, control);
    if (shallow) return finish_with_tail(graph, stage, options, control);
  }
  // Long paths: a search from one hub touches few nodes per level, and hub by hub each label is read
  // once per hub instead of once per level.
  control.entries.store(0);
  return label_by_pll(graph, options.max_distance, control);
}

Labels build_planes(const RankedGraph& graph, const BuildOptions& options, Control& control) {
  PlaneStage stage(graph, options.max_distance, options.threads, control);
  stage.run(graph.num_nodes, kUnreachable);
  return finish_all_planes(graph, stage, options.threads, control);
}

}  // namespace

Labels build_labels(const RankedGraph& graph, const BuildOptions& options, Control& control) {
  switch (options.algorithm) {
    case Algorithm::pll: return label_by_pll(graph, options.max_distance, control);
    case Algorithm::planes: return build_planes(graph, options, control);
    case Algorithm::psl: return tail_only(graph, options, control);
    default: return build_automatic(graph, options, control);
  }
}

LabelSizeProbe::LabelSizeProbe(Node num_nodes, Control& control)
    : best_(&control, num_nodes), depth_(&control), queue_(&control, num_nodes) {
  depth_.assign(num_nodes, kUnreachable);
}

void LabelSizeProbe::count(const Adjacency& arcs, Node node, Distance max_distance,
                           std::vector<std::uint64_t>& by_distance, Control& control) {
  std::size_t head = 0;
  std::size_t tail = 0;
  queue_[tail++] = node;
  best_[node] = node;
  depth_[node] = 0;
  while (head < tail) {
    if ((head & 0xFFFF) == 0) control.check();
    const Node at = queue_[head++];
    const Distance column = std::min(depth_[at], kLastDistance);
    if (by_distance.size() <= column) by_distance.resize(column + 1);
    by_distance[column] += best_[at] == at;
    if (depth_[at] == max_distance) continue;
    for (const Node next : arcs.of(at)) {
      if (depth_[next] == kUnreachable) {
        depth_[next] = depth_[at] + 1;
        best_[next] = next;
        queue_[tail++] = next;
      }
      if (depth_[next] == depth_[at] + 1) best_[next] = std::min(best_[next], best_[at]);
    }
  }
  for (std::size_t i = 0; i < tail; ++i) depth_[queue_[i]] = kUnreachable;
}

}  // namespace dhilgt
