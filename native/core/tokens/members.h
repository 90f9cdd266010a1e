// The members of a token row: an ego node, some of its hubs, some of its holders, some neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "labels/set.h"
#include "tokens/sample.h"

namespace dhilgt {

struct TokenShape {
  std::uint32_t size = 32;  // slots of a row, including that of the ego
  std::uint32_t num_out = 16;  // hubs to draw
  std::uint32_t num_in = 15;   // holders to draw
  double out_exponent = -1.0;
  double in_exponent = -1.0;
  std::uint64_t seed = 0;
  bool spill = false;           // unused slots of one side go to the other
  bool fill_neighbors = false;  // slots that are still free go to neighbours not drawn yet
};

struct TokenWeights {
  explicit TokenWeights(const TokenShape& shape) : out(shape.out_exponent), in(shape.in_exponent) {}
  DistanceWeights out;
  DistanceWeights in;
};

// Numbers of hubs and of holders that follow the ego.
struct TokenParts {
  std::uint16_t hubs;
  std::uint16_t holders;
};

class MemberSampler {
 public:
  MemberSampler(const TokenShape& shape, const TokenWeights& weights) : shape_(shape), weights_(weights) {}

  // Draws the members of a row, as ranks: the ego, hubs, holders, then neighbours in free slots. The draw
  // depends on the seed, `copy`, the ego's `node` index and the two lists alone. On a directed graph
  // these are the joined ones.
  TokenParts sample(Node rank, Node node, std::uint64_t copy, const LabelView& hubs, const LabelView& holders,
                    std::vector<Node>& members);

 private:
  void fill_with_neighbors(const LabelView& hubs, const LabelView& holders, KeyedRandom& random,
                           std::vector<Node>& members);

  const TokenShape& shape_;
  const TokenWeights& weights_;
  LabelSampler sampler_;
  ShuffledDraw neighbor_draw_;
  std::vector<Node> positions_;
};

}  // namespace dhilgt
