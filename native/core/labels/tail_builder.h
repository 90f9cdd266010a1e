// The levels of label_tail (tail.h), for labels of the better hubs in memory or mapped.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "labels/tail_examiner.h"
#include "labels/tail_labels.h"

namespace dhilgt {

inline constexpr std::size_t kParallelReceivers = 1024;  // with fewer, threads cost more than they save

inline constexpr std::uint64_t kAllEntries = ~std::uint64_t{0};

// The graph that is labelled, wherever it is.
struct TailGraph {
  Node num_nodes;
  bool directed;
  ArcsView forward;
  ArcsView backward;
};

template <class Top, class Settled = TailLabels>
class TailBuilder {
  static constexpr bool kInMemory = std::is_same_v<Settled, TailLabels>;

 public:
  using OneSide = Side<Top, Settled>;
  template <class Mark>
  using ExaminerOf = Examiner<Mark, OneSide>;

  // `top_in` and `top_out` are the labels of the hubs before first_hub; top_out is ignored for undirected
  // graphs. Up to `own_entries` entries are settled here; more are so by `take_settled` only.
  TailBuilder(const TailGraph& graph, Node first_hub, Top top_in, Top top_out, Distance radius,
              unsigned threads, std::uint64_t own_entries, Control& control)
      : first_hub_(first_hub),
        num_nodes_(graph.num_nodes),
        tail_nodes_(graph.num_nodes - first_hub),
        radius_(radius),
        threads_(threads),
        own_entries_(own_entries),
        control_(control),
        receivers_(&control),
        received_in_(&control) {
    sides_.reserve(2);
    sides_.emplace_back(graph.backward, graph.forward, first_hub, tail_nodes_,
                        std::move(top_in), control);
    if (graph.directed) {
      sides_.emplace_back(graph.forward, graph.backward, first_hub, tail_nodes_,
                          std::move(top_out), control);
    }
    for (unsigned worker = 0; worker < threads; ++worker) arenas_.emplace_back(control);
    new_entries_.resize(threads);
    received_in_.assign(tail_nodes_, 0);
  }

  Distance depth() const { return depth_; }  // of the next level
  std::size_t num_sides() const { return sides_.size(); }

  // Calls visit(node, hubs) for the nodes of [begin, end) that have entries of one side in the next level, and
  // keeps nothing. The examiner must hold the distance.
  template <class Mark, class Visit>
  void each_new(ExaminerOf<Mark>& examiner, std::size_t s, Node begin, Node end, Visit&& visit) const {
    const OneSide& side = sides_[s];
    const OneSide& opposite = sides_[sides_.size() - 1 - s];
    if (depth_ > radius_) return;
    std::vector<Node> neighbours;
    for (Node node = begin; node < end; ++node) {
      if ((node & 0xFFF) == 0) control_.check();
      std::span<const Node> hubs;
      if (depth_ == 1) {
        better_neighbours(side, node, neighbours);
        hubs = neighbours;
      } else {
        hubs = examiner.find(node, depth_, side, opposite);
      }
      if (!hubs.empty()) visit(node, hubs);
    }
  }

  // Takes all entries of the next level, by side; their hubs must stay where they are.
  void add_level(std::span<const std::vector<NewEntries>> level) {
    for (std::size_t s = 0; s < sides_.size(); ++s) {
      sides_[s].clear_frontier();
      for (const NewEntries& added : level[s]) sides_[s].add(added, depth_);
    }
    ++depth_;
    settle_if_worthwhile();
  }

  // An upper bound on the candidates of the level after the next one that hubs of a node make there.
  std::uint64_t candidates_from(std::size_t s, Node node, std::span<const Node> hubs) const {
    if (depth_ >= radius_) return 0;
    const std::span<const Node> neighbours = sides_[s].push.of(node);
    const auto from = std::upper_bound(neighbours.begin(), neighbours.end(), hubs.front());
    return static_cast<std::uint64_t>(neighbours.end() - from) * hubs.size();
  }

  // Finds all entries that are left; returns the sides, in-labels first. In memory, all entries are settled.
  std::vector<OneSide>& run() {
    if (depth_ == 1) start();
    run_levels<std::uint8_t>();
    if (any_frontier() && depth_ <= radius_) run_levels<std::uint32_t>();
    received_in_.clear();
    receivers_.clear();
    for (OneSide& side : sides_) side.frontier.clear();
    if constexpr (kInMemory) {
      for (OneSide& side : sides_) {
        side.settle(threads_, control_);
        side.chains.clear();
      }
      arenas_.clear();
      old_arenas_.clear();
    }
    return sides_;
  }

  const std::vector<OneSide>& sides() const { return sides_; }

  // Takes settled labels from elsewhere, by side, which hold all entries up to a distance, and the entries of
  // that distance, from which the next level follows.
  void take_settled(std::vector<Settled> settled, Distance distance, std::span<const std::vector<NewEntries>> level) {
    for (std::size_t s = 0; s < sides_.size(); ++s) {
      sides_[s].settled = std::move(settled[s]);
      sides_[s].drop_chained();
      sides_[s].clear_frontier();
      for (const NewEntries& added : level[s]) sides_[s].make_frontier(added);
    }
    depth_ = distance + 1;
    own_entries_ = 0;
  }

 private:
  // Distance 1: every better neighbour is a hub, without a test.
  void start() {
    std::vector<std::vector<NewEntries>> level(sides_.size());
    std::vector<Node> hubs;
    for (std::size_t s = 0; s < sides_.size(); ++s) {
      for (Node node = first_hub_; node < num_nodes_; ++node) {
        if ((node & 0xFFF) == 0) control_.check();
        better_neighbours(sides_[s], node, hubs);
        if (hubs.empty()) continue;
        const Node* stored = arenas_[0].store(hubs.data(), hubs.size());
        level[s].push_back({node, static_cast<std::uint32_t>(hubs.size()), stored});
      }
    }
    add_level(level);
  }

  void better_neighbours(const OneSide& side, Node node, std::vector<Node>& hubs) const {
    hubs.clear();
    for (const Node neighbour : side.pull.of(node)) {
      if (neighbour >= node) break;
      if (neighbour >= first_hub_) hubs.push_back(neighbour);
    }
  }

  // Settling copies all entries, so it waits until 1/16 of them are chained: the cost stays linear.
  void settle_if_worthwhile() {
    std::uint64_t chained = 0;
    std::uint64_t settled = 0;
    for (const OneSide& side : sides_) {
      chained += side.num_chained;
      settled += side.num_settled;
    }
    if (chained * 16 < settled || chained + settled > own_entries_) return;
    for (OneSide& side : sides_) side.settle(threads_, control_);
    // Now only the frontier points into the arenas, and it does not reach into the older ones.
    old_arenas_.clear();
    old_arenas_.swap(arenas_);
    for (unsigned worker = 0; worker < threads_; ++worker) arenas_.emplace_back(control_);
  }

  bool any_frontier() const {
    for (const OneSide& side : sides_) {
      if (!side.frontier_nodes.empty()) return true;
    }
    return false;
  }

  // Runs levels until no entries are found, the radius is reached or distances no longer fit a Mark.
  template <class Mark>
  void run_levels() {
    std::vector<ExaminerOf<Mark>> examiners;
    for (unsigned worker = 0; worker < threads_; ++worker) {
      examiners.emplace_back(num_nodes_, first_hub_, control_);
    }
    std::vector<std::vector<NewEntries>> level(sides_.size());
    const Distance last = std::min(radius_, Distance{ExaminerOf<Mark>::kMaxDepth});
    while (any_frontier() && depth_ <= last) {
      control_.check();
      // Both directions are computed before either is added: each is tested only against the other's
      // entries of smaller distances.
      for (std::size_t s = 0; s < sides_.size(); ++s) {
        level[s].clear();
        collect_receivers(sides_[s]);
        find_level(examiners, sides_[s], sides_[sides_.size() - 1 - s], level[s]);
      }
      add_level(level);
    }
  }

  // Collects the nodes with a neighbour in the frontier.
  void collect_receivers(const OneSide& side) {
    receivers_.resize(0);
    ++round_;
    for (const Node node : side.frontier_nodes) {
      const Node best_hub = side.frontier[node - first_hub_].hubs[0];
      const std::span<const Node> neighbours = side.push.of(node);
      for (std::size_t i = neighbours.size(); i-- > 0 && neighbours[i] > best_hub;) {
        std::uint32_t& received_in = received_in_[neighbours[i] - first_hub_];
        if (received_in != round_) {
          received_in = round_;
          receivers_.push_back(neighbours[i]);
        }
      }
    }
  }

  template <class Mark>
  void find_level(std::vector<ExaminerOf<Mark>>& examiners, const OneSide& side, const OneSide& opposite,
                  std::vector<NewEntries>& level) {
    const unsigned threads = receivers_.size() < kParallelReceivers ? 1 : threads_;
    parallel_for(threads, receivers_.size(), 128, control_,
                 [&](unsigned worker, std::size_t begin, std::size_t end) {
                   std::uint64_t entries = 0;
                   for (std::size_t i = begin; i < end; ++i) {
                     const std::span<const Node> hubs =
                         examiners[worker].find(receivers_[i], depth_, side, opposite);
                     if (hubs.empty()) continue;
                     const Node* stored = arenas_[worker].store(hubs.data(), hubs.size());
                     new_entries_[worker].push_back(
                         {receivers_[i], static_cast<std::uint32_t>(hubs.size()), stored});
                     entries += hubs.size();
                   }
                   control_.entries.fetch_add(entries, std::memory_order_relaxed);
                 });
    for (std::vector<NewEntries>& part : new_entries_) {
      level.insert(level.end(), part.begin(), part.end());
      part.clear();
    }
  }

  const Node first_hub_;
  const Node num_nodes_;
  const Node tail_nodes_;
  const Distance radius_;
  const unsigned threads_;
  std::uint64_t own_entries_;
  Control& control_;
  Distance depth_ = 1;  // of the next level
  std::vector<OneSide> sides_;
  std::vector<Arena> arenas_;      // per worker
  std::vector<Arena> old_arenas_;  // hold the hubs of the frontier after settling
  std::vector<std::vector<NewEntries>> new_entries_;  // per worker
  Buffer<Node> receivers_;
  Buffer<std::uint32_t> received_in_;  // per tail node: the last round in which it was a receiver
  std::uint32_t round_ = 0;
};

}  // namespace dhilgt
