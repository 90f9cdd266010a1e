// Small graphs, and slow, simple reference implementations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "graph/csr.h"
#include "graph/ranked_graph.h"
#include "labels/build.h"

namespace dhilgt::test {

struct Graph {
  Node num_nodes = 0;
  bool directed = false;
  Csr out;
  Csr in;

  CsrView out_view() const { return {num_nodes, out.offsets.data(), out.targets.data()}; }
  CsrView in_view() const { return {num_nodes, in.offsets.data(), in.targets.data()}; }
};

using Edges = std::vector<std::pair<std::int32_t, std::int32_t>>;

inline Graph make_graph(Node num_nodes, const Edges& edges, bool directed) {
  std::vector<std::int32_t> sources, targets;
  for (const auto& [u, v] : edges) {
    sources.push_back(u);
    targets.push_back(v);
  }
  Control control;
  Graph graph{num_nodes, directed, {}, {}};
  graph.out = build_csr(sources.data(), targets.data(), sources.size(), num_nodes, directed, 1, control);
  graph.in = transpose(graph.out.offsets.data(), graph.out.targets.data(), num_nodes, control);
  return graph;
}

inline Graph random_graph(Node num_nodes, std::size_t num_edges, bool directed, std::uint64_t seed) {
  KeyedRandom random(seed, 1, 2);
  Edges edges;
  for (std::size_t i = 0; i < num_edges; ++i) {
    // The smaller of two draws, so that some nodes get far more edges than others.
    const auto u = std::min(random.below(num_nodes), random.below(num_nodes));
    edges.emplace_back(static_cast<std::int32_t>(u), static_cast<std::int32_t>(random.below(num_nodes)));
  }
  return make_graph(num_nodes, edges, directed);
}

// Shuffles the node numbers: the labels of a path numbered in order have quadratic size.
inline Graph shuffled(Node num_nodes, Edges edges, std::uint64_t seed) {
  std::vector<std::int32_t> name(num_nodes);
  std::iota(name.begin(), name.end(), 0);
  KeyedRandom random(seed, 3, 4);
  for (Node i = num_nodes; i-- > 1;) std::swap(name[i], name[random.below(i + 1)]);
  for (auto& [u, v] : edges) {
    u = name[static_cast<std::size_t>(u)];
    v = name[static_cast<std::size_t>(v)];
  }
  return make_graph(num_nodes, edges, false);
}

inline Graph path_graph(Node num_nodes, std::uint64_t seed) {
  Edges edges;
  for (Node v = 0; v + 1 < num_nodes; ++v) edges.emplace_back(v, v + 1);
  return shuffled(num_nodes, edges, seed);
}

inline Graph grid_graph(Node side, std::uint64_t seed) {
  Edges edges;
  for (Node v = 0; v < side * side; ++v) {
    if (v % side + 1 < side) edges.emplace_back(v, v + 1);
    if (v + side < side * side) edges.emplace_back(v, v + side);
  }
  return shuffled(side * side, edges, seed);
}

struct Ranked {
  Buffer<Node> node_at;
  RankedGraph graph;
};

inline Ranked rank(const Graph& graph, Control& control) {
  const CsrView out = graph.out_view();
  const CsrView in = graph.in_view();
  Ranked ranked;
  ranked.node_at = order_by_degree(out, graph.directed ? &in : nullptr, control);
  ranked.graph = rank_graph(out, graph.directed ? &in : nullptr, ranked.node_at.view(), control);
  return ranked;
}

// distance[u][v] over ranks, kUnreachable without a path.
inline std::vector<std::vector<Distance>> all_distances(const Adjacency& arcs, Node n) {
  std::vector<std::vector<Distance>> distance(n, std::vector<Distance>(n, kUnreachable));
  for (Node source = 0; source < n; ++source) {
    std::vector<Node> queue{source};
    distance[source][source] = 0;
    for (std::size_t head = 0; head < queue.size(); ++head) {
      for (const Node next : arcs.of(queue[head])) {
        if (distance[source][next] != kUnreachable) continue;
        distance[source][next] = distance[source][queue[head]] + 1;
        queue.push_back(next);
      }
    }
  }
  return distance;
}

using Entries = std::vector<std::pair<Distance, Node>>;  // by distance, then hub

// By definition, h is a hub of v if it is the best ranked node on all shortest paths from h to v
// (`reaching`) or from v to h.
inline std::vector<Entries> labels_by_definition(const RankedGraph& graph, bool reaching) {
  const Node n = graph.num_nodes;
  const auto distance = all_distances(graph.forward(), n);
  std::vector<Entries> labels(n);
  for (Node v = 0; v < n; ++v) {
    for (Node h = 0; h < n; ++h) {
      const Node from = reaching ? h : v;
      const Node to = reaching ? v : h;
      if (distance[from][to] == kUnreachable) continue;
      Node best = h;
      for (Node w = 0; w < n; ++w) {
        if (distance[from][w] == kUnreachable || distance[w][to] == kUnreachable) continue;
        if (distance[from][w] + distance[w][to] == distance[from][to]) best = std::min(best, w);
      }
      if (best == h) labels[v].emplace_back(distance[from][to], h);
    }
    std::sort(labels[v].begin(), labels[v].end());
  }
  return labels;
}

inline Entries entries_of(const LabelView& label) {
  Entries entries;
  label.each_segment([&](Distance distance, std::span<const Node> hubs) {
    for (const Node hub : hubs) entries.emplace_back(distance, hub);
  });
  return entries;
}

inline std::vector<Entries> entries_of(const LabelSet& set) {
  std::vector<Entries> all;
  for (Node v = 0; v < set.num_nodes(); ++v) all.push_back(entries_of(set.of(v)));
  return all;
}

template <class T>
bool same_bytes(const Buffer<T>& a, const Buffer<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline bool same(const LabelSet& a, const LabelSet& b) {
  return same_bytes(a.entry_offsets, b.entry_offsets) && same_bytes(a.segment_offsets, b.segment_offsets) &&
         same_bytes(a.segments, b.segments) && same_bytes(a.hubs, b.hubs);
}

inline bool same(const Labels& a, const Labels& b) {
  return a.directed == b.directed && same(a.in, b.in) && (!a.directed || same(a.out, b.out));
}

inline constexpr Algorithm kAlgorithms[] = {Algorithm::automatic, Algorithm::pll, Algorithm::planes,
                                            Algorithm::psl};

}  // namespace dhilgt::test
