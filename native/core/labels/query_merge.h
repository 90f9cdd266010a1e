// The textbook query, a merge of two labels sorted by hub: the baseline of benchmarks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "labels/set.h"

namespace dhilgt {

class MergeIndex {
 public:
  explicit MergeIndex(const LabelSet& labels);
  Distance distance(Node left, Node right) const;
  void answer(std::span<const Node> left, std::span<const Node> right, std::span<Distance> distances,
              unsigned threads, Control& control) const;

 private:
  std::vector<Offset> offsets_;
  std::vector<Node> hubs_;  // ascending per node
  std::vector<Distance> distances_;
};

}  // namespace dhilgt
