#include "graph/ranked_graph.h"

#include <algorithm>

namespace dhilgt {
namespace {

Buffer<Node> inverse(std::span<const Node> node_at, Control& control) {
  Buffer<Node> rank_of(&control, node_at.size());
  for (std::size_t rank = 0; rank < node_at.size(); ++rank) {
    rank_of[node_at[rank]] = static_cast<Node>(rank);
  }
  return rank_of;
}

// The direction opposite to `source`. Ranks are visited in ascending order and appended to the lists
// of their neighbours, so every list is sorted without a sort.
Adjacency reversed_by_rank(const CsrView& source, std::span<const Node> node_at,
                           const Buffer<Node>& rank_of, Control& control) {
  const Node n = source.num_nodes;
  const auto num_arcs = static_cast<std::size_t>(source.offsets[n]);
  Adjacency result{Buffer<Offset>(&control), Buffer<Node>(&control, num_arcs + kReadAhead)};
  std::fill(result.targets.end() - kReadAhead, result.targets.end(), 0);
  result.offsets.assign(static_cast<std::size_t>(n) + 1, 0);
  for (std::size_t i = 0; i < num_arcs; ++i) ++result.offsets[rank_of[source.targets[i]] + 1];
  for (Node rank = 0; rank < n; ++rank) result.offsets[rank + 1] += result.offsets[rank];
  Buffer<Offset> cursor(&control);
  cursor.append(result.offsets.data(), n);
  for (Node rank = 0; rank < n; ++rank) {
    if ((rank & 0xFFFF) == 0) control.check();
    const Node node = node_at[rank];
    for (std::int64_t i = source.offsets[node]; i < source.offsets[node + 1]; ++i) {
      result.targets[cursor[rank_of[source.targets[i]]]++] = rank;
    }
  }
  return result;
}

}  // namespace

Buffer<Node> order_by_degree(const CsrView& out, const CsrView* in, Control& control) {
  const Node n = out.num_nodes;
  auto degree = [&](Node v) {
    std::int64_t d = out.offsets[v + 1] - out.offsets[v];
    if (in != nullptr) d += in->offsets[v + 1] - in->offsets[v];
    return static_cast<std::size_t>(d);
  };
  std::size_t max_degree = 0;
  for (Node v = 0; v < n; ++v) max_degree = std::max(max_degree, degree(v));
  // Counting sort, stable in the node index; slot 0 holds the largest degree.
  Buffer<Offset> start(&control);
  start.assign(max_degree + 2, 0);
  for (Node v = 0; v < n; ++v) ++start[max_degree - degree(v) + 1];
  for (std::size_t i = 0; i <= max_degree; ++i) start[i + 1] += start[i];
  Buffer<Node> node_at(&control, n);
  for (Node v = 0; v < n; ++v) node_at[start[max_degree - degree(v)]++] = v;
  return node_at;
}

RankedGraph rank_graph(const CsrView& out, const CsrView* in, std::span<const Node> node_at,
                       Control& control) {
  const Buffer<Node> rank_of = inverse(node_at, control);
  RankedGraph graph;
  graph.num_nodes = out.num_nodes;
  graph.directed = in != nullptr;
  if (in == nullptr) {
    graph.out = reversed_by_rank(out, node_at, rank_of, control);
  } else {
    graph.out = reversed_by_rank(*in, node_at, rank_of, control);
    graph.in = reversed_by_rank(out, node_at, rank_of, control);
  }
  return graph;
}

}  // namespace dhilgt
