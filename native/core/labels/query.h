// Exact distances from labels in memory or packed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "labels/pack.h"
#include "labels/set.h"

namespace dhilgt {

// One direction of labels, in memory or packed (usually in a mapped file).
struct LabelSource {
  const LabelSet* in_memory = nullptr;
  PackedView packed;

  Node num_nodes() const { return in_memory != nullptr ? in_memory->num_nodes() : packed.num_nodes; }
  // The view is valid until `scratch` is used again.
  LabelView of(Node node, DecodedLabel& scratch) const {
    if (in_memory != nullptr) return in_memory->of(node);
    decode_label(packed, node, scratch);
    return scratch.view();
  }
};

struct Answer {
  Distance distance;  // kUnreachable if there is no path
  Node hub;           // best ranked hub on a shortest path; kNoNode if there is none
};

// Answers queries from one source node at a time. The label of the source is stored in a table by hub, so
// a target costs one pass over its own label. Must not be shared between threads.
class Querier {
 public:
  Querier(const LabelSource& out_labels, const LabelSource& in_labels);
  void set_source(Node node);
  Answer to(Node target);

 private:
  const LabelSource& out_labels_;
  const LabelSource& in_labels_;
  std::vector<Distance> from_source_;  // by hub
  Node source_ = kNoNode;
  DecodedLabel source_label_;
  DecodedLabel target_label_;
};

// Distances of many pairs (ranks). `hubs`, if not empty, receives the hub of each answer.
void answer_pairs(const LabelSource& out_labels, const LabelSource& in_labels,
                  std::span<const Node> sources, std::span<const Node> targets,
                  std::span<Distance> distances, std::span<Node> hubs, unsigned threads,
                  Control& control);

// All distances among `nodes` (ranks), row by row.
void answer_matrix(const LabelSource& out_labels, const LabelSource& in_labels,
                   std::span<const Node> nodes, std::span<Distance> distances, unsigned threads,
                   Control& control);

}  // namespace dhilgt
