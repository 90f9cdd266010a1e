// The graph with its nodes renumbered by importance: rank 0 is the most important node.
#pragma once

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"

namespace dhilgt {

// One direction of a graph as it comes from Python: without self-loops and duplicates.
struct CsrView {
  Node num_nodes = 0;
  const std::int64_t* offsets = nullptr;  // num_nodes + 1
  const std::int32_t* targets = nullptr;
};

// Loops that prefetch may read this many targets past the last one.
inline constexpr std::size_t kReadAhead = 16;

// One direction of a ranked graph. Neighbours ascend, so the most important come first.
struct Adjacency {
  Buffer<Offset> offsets;  // num_nodes + 1
  Buffer<Node> targets;    // one per arc, then kReadAhead zeros

  std::span<const Node> of(Node rank) const {
    return {targets.data() + offsets[rank], static_cast<std::size_t>(offsets[rank + 1] - offsets[rank])};
  }
};

// The same arrays wherever they are, such as in a mapped file.
struct ArcsView {
  ArcsView(const Offset* first_offset, const Node* first_target)
      : offsets(first_offset), targets(first_target) {}
  ArcsView(const Adjacency& arcs) : offsets(arcs.offsets.data()), targets(arcs.targets.data()) {}  // NOLINT

  std::span<const Node> of(Node rank) const {
    return {targets + offsets[rank], static_cast<std::size_t>(offsets[rank + 1] - offsets[rank])};
  }

  const Offset* offsets;
  const Node* targets;
};

struct RankedGraph {
  Node num_nodes = 0;
  bool directed = false;
  Adjacency out;  // rank -> ranks it points to
  Adjacency in;   // empty when undirected: `out` is used for both directions

  Offset num_arcs() const { return num_nodes == 0 ? 0 : out.offsets[num_nodes]; }
  const Adjacency& forward() const { return out; }
  const Adjacency& backward() const { return directed ? in : out; }
};

// Degree (in + out when directed) descending, ties by ascending node index.
Buffer<Node> order_by_degree(const CsrView& out, const CsrView* in, Control& control);

// node_at[rank] = node must be a permutation; the caller checks it. `in` is null for undirected graphs.
RankedGraph rank_graph(const CsrView& out, const CsrView* in, std::span<const Node> node_at,
                       Control& control);

}  // namespace dhilgt
