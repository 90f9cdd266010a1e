// Token rows of some egos from packed labels of just the nodes that occur: for labels in parts, of which
// no process holds all. The rows are those of a TokenFactory over all labels, byte for byte.
#pragma once

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/pack.h"
#include "labels/set.h"
#include "tokens/members.h"
#include "tokens/rows.h"

namespace dhilgt {

inline constexpr Node kNoMember = 0xFFFFFFFFu;  // a slot that is padding

// Packed records (see labels/pack.h) of one side: record i is that of the i-th of some ranks.
struct PackedSide {
  std::span<const Offset> offsets;  // one more than ranks
  std::span<const std::uint8_t> bytes;
};

// Packed labels, or holder lists, of some ranks of a graph. `out` is used on directed graphs only.
struct PackedBatch {
  Node num_nodes = 0;
  bool directed = false;
  std::span<const Node> ranks;
  PackedSide in;
  PackedSide out;

  std::span<const std::uint8_t> record(const PackedSide& side, std::size_t i) const;  // throws BadPacking
};

// Draws the members of the rows of the egos labels.ranks. nodes: their node indices; holders: the packed
// holder lists of the same ranks; members: [count, size] ranks, kNoMember for padding; parts: [count, 2].
void sample_members(const TokenShape& shape, const PackedBatch& labels, const PackedBatch& holders,
                    std::span<const Node> nodes, std::uint64_t copy, std::span<Node> members,
                    std::span<std::uint16_t> parts, unsigned threads, Control& control);

// Returns the distinct members, ascending, and replaces each member by its position among them.
Buffer<Node> number_members(Node num_nodes, std::span<Node> members, Control& control);

// The labels of a batch, decoded. Where a table over all nodes would take more memory than they do, hubs are
// renumbered, so that a table covers only those that occur.
class BatchLabels {
 public:
  BatchLabels(const PackedBatch& packed, bool bounded, unsigned threads, Control& control);
  BatchLabels(const BatchLabels&) = delete;
  BatchLabels& operator=(const BatchLabels&) = delete;

  // Computes all distances inside rows. slots: [count, size] positions in packed.ranks, kNoMember for padding;
  // distances: [count, packed_pairs].
  void row_distances(std::size_t size, std::span<const Node> slots, std::span<std::uint8_t> distances,
                     unsigned threads, Control& control) const;

 private:
  LabelSet in_;
  LabelSet out_;
  TokenSource source_;
  Node num_hubs_ = 0;
};

}  // namespace dhilgt
