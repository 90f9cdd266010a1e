// The textbook query: two labels sorted by hub, merged. The peer that faster ways are measured against.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
