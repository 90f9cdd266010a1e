// Token rows: an ego, some of its hubs, some of its holders, and all distances among them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "labels/set.h"
#include "tokens/sample.h"

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

// The tables of one worker: distance of each member to a hub, by hub, [hub][member]. All cells are unset
// between rows.
struct TokenCells {
  TokenCells(Node num_nodes, std::size_t row_width, bool use_bytes, Control& control);

  const std::size_t width;
  const bool narrow;  // bytes are used, else words
  AlignedArray<std::uint8_t> bytes;
  AlignedArray<std::uint32_t> words;
};

// What a sampler's calls share: tables are kept from call to call, since clearing a fresh one costs more
// than a small batch of rows.
class TokenFactory {
 public:
  TokenFactory(const TokenSource& source, Control& control);

  // Rows for many nodes. ids: [count, size] node indices, -1 = padding; parts: [count, 2] how many hubs
  // and holders follow the ego; packed: [count, packed_pairs], or empty to make no distances.
  // May be called from several threads at once.
  void make_rows(const TokenShape& shape, std::span<const Node> ranks, std::uint64_t copy,
                 std::span<std::int32_t> ids, std::span<std::uint16_t> parts,
                 std::span<std::uint8_t> packed, unsigned threads, Control& control);

  const TokenSource& source() const { return source_; }

 private:
  std::unique_ptr<TokenCells> borrow(std::size_t width, bool narrow);
  void give_back(std::unique_ptr<TokenCells> cells);

  const TokenSource source_;
  const Distance longest_;  // distance in any label
  Control& table_control_;  // outlives the tables
  std::mutex lock_;
  std::vector<std::unique_ptr<TokenCells>> spare_;
};

// Makes rows one at a time with borrowed tables.
class TokenMaker {
 public:
  TokenMaker(const TokenSource& source, const TokenShape& shape, const DistanceWeights& out_weights,
             const DistanceWeights& in_weights, TokenCells* cells);

  struct Parts {
    std::uint16_t hubs;
    std::uint16_t holders;
  };
  // The members of a node's row as ranks: ego, hubs, holders, then neighbours that fill up.
  Parts sample(Node rank, std::uint64_t copy, std::vector<Node>& members);
  // All distances among them, packed; slots past the members are 255.
  void distances(std::span<const Node> members, std::span<std::uint8_t> packed);
  // Brings the labels of the members of a row into the cache before they are needed.
  void prefetch(std::span<const Node> members) const;

 private:
  void fill_with_neighbors(Node rank, KeyedRandom& random, std::vector<Node>& members);
  void byte_distances(std::span<const Node> members, std::span<std::uint8_t> packed);
  void word_distances(std::span<const Node> members, std::span<std::uint8_t> packed);

  const TokenSource& source_;
  const TokenShape& shape_;
  const DistanceWeights& out_weights_;
  const DistanceWeights& in_weights_;
  TokenCells* cells_;
  LabelSampler sampler_;
  ShuffledDraw neighbor_draw_;
  std::vector<Node> positions_;
  std::vector<Node> touched_;
};

// The two label sets of a directed graph as one: per node each hub once, at its smaller distance.
LabelSet join_labels(const LabelSet& in, const LabelSet& out, unsigned threads, Control& control);

// [count, size, size] from packed rows: 0 on the diagonal, 255 wherever a slot is padding.
void unpack_rows(std::span<const std::int32_t> ids, std::span<const std::uint8_t> packed,
                 std::size_t size, bool directed, std::span<std::uint8_t> square, unsigned threads,
                 Control& control);

}  // namespace dhilgt
