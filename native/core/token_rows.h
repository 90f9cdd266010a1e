// Token rows: an ego, some of its hubs, some of its holders, and all distances among them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "buffer.h"
#include "label_set.h"
#include "token_sample.h"

namespace dhilgt {

inline constexpr std::uint8_t kFarByte = 254;          // exact distance is 254 or more
inline constexpr std::uint8_t kUnreachableByte = 255;  // no path, or padding

struct TokenShape {
  std::uint32_t size = 32;  // slots of a row, the ego's included
  std::uint32_t num_out = 16;
  std::uint32_t num_in = 15;
  double out_exponent = -1.0;
  double in_exponent = -1.0;
  std::uint64_t seed = 0;
  bool spill = false;           // slots one side cannot use go to the other
  bool fill_neighbors = false;  // slots still free go to neighbours not drawn
};

// What rows are made from, in rank space. `hubs` and `holders` say whom to draw: on a directed graph the
// two label sets joined, each hub at its smaller distance. `in` and `out` answer distances.
struct TokenSource {
  const LabelSet* in = nullptr;
  const LabelSet* out = nullptr;
  const LabelSet* hubs = nullptr;
  const LabelSet* holders = nullptr;
  std::span<const Node> node_at;  // rank -> node index, the key of a draw
  bool directed = false;
};

// Bytes of a row's packed distances: pairs (i, j), j < i, at i (i - 1) / 2 + j, the distance from j to i;
// when directed the distances from i to j follow in the same order.
inline std::size_t packed_pairs(std::size_t size, bool directed) {
  return size * (size - 1) / 2 * (directed ? 2 : 1);
}

// Makes rows one at a time. One per thread.
class TokenMaker {
 public:
  // `narrow`: what fits_bytes says; it reads all labels, so it is asked once and not per thread.
  TokenMaker(const TokenSource& source, const TokenShape& shape, bool narrow, Control& control);
  static bool fits_bytes(const TokenSource& source, const TokenShape& shape);

  // The members of a node's row as ranks, ego first.
  void sample(Node rank, std::uint64_t copy, std::vector<Node>& members);
  // All distances among them, packed; slots past the members are 255.
  void distances(std::span<const Node> members, std::span<std::uint8_t> packed);
  // Brings the labels of the members of a row into the cache before they are needed.
  void prefetch(std::span<const Node> members) const;

 private:
  void fill_with_neighbors(Node rank, KeyedRandom& random, std::vector<Node>& members);
  void byte_distances(std::span<const Node> members, std::span<std::uint8_t> packed);
  void word_distances(std::span<const Node> members, std::span<std::uint8_t> packed);

  const TokenSource& source_;
  const TokenShape shape_;
  const DistanceWeights out_weights_;
  const DistanceWeights in_weights_;
  const bool narrow_;
  const std::size_t width_;  // columns of a table row
  LabelSampler sampler_;
  std::vector<Node> positions_;
  // distance of each member to a hub, by hub: [hub][member]; one of the two is used
  AlignedArray<std::uint8_t> byte_cells_;
  AlignedArray<std::uint32_t> word_cells_;
  std::vector<Node> touched_;
};

// The two label sets of a directed graph as one: per node each hub once, at its smaller distance.
LabelSet join_labels(const LabelSet& in, const LabelSet& out, unsigned threads, Control& control);

// Rows for many nodes. ids: [count, size] node indices, -1 = padding; packed: [count, packed_pairs].
// `packed` may be empty: then only ids are made.
void make_rows(const TokenSource& source, const TokenShape& shape, std::span<const Node> ranks,
               std::uint64_t copy, std::span<std::int32_t> ids, std::span<std::uint8_t> packed,
               unsigned threads, Control& control);

}  // namespace dhilgt
