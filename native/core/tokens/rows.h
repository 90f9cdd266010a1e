// Token rows: an ego node, some of its hubs, some of its holders, and all distances among them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/set.h"
#include "tokens/members.h"

namespace dhilgt {

inline constexpr std::uint8_t kFarByte = 254;          // 254 or more, or beyond the radius of the labels
inline constexpr std::uint8_t kUnreachableByte = 255;  // there is no path, or a slot is padding

// The input of rows, in rank space. Nodes are drawn from `hubs` and `holders`, which on a directed graph
// come from the joined label sets; distances are computed from `in` and `out`.
struct TokenSource {
  const LabelSet* in = nullptr;
  const LabelSet* out = nullptr;
  const LabelSet* hubs = nullptr;
  const LabelSet* holders = nullptr;
  std::span<const Node> node_at;  // by rank; the node index is part of the key of a draw
  bool directed = false;
  bool bounded = false;  // labels end at a radius: without a common hub nodes are far, and may have a path

  std::uint8_t no_hub_byte() const { return bounded ? kFarByte : kUnreachableByte; }
};

// Number of packed distances of a row. The distance from j to i, j < i, is at i (i - 1) / 2 + j; when
// directed, the distances from i to j follow in the same order.
inline std::size_t packed_pairs(std::size_t size, bool directed) {
  return size * (size - 1) / 2 * (directed ? 2 : 1);
}

// How wide the row of a table is, and whether it is of bytes instead of words.
struct CellShape {
  std::size_t width;
  bool narrow;
  bool operator==(const CellShape&) const = default;
};
// For rows of `size` members whose labels have distances up to `max_distance`.
CellShape cell_shape(std::size_t size, Distance max_distance);

// The table of one worker: the distance between each hub and each member, [hub][member]. All cells are
// unset between rows.
struct TokenCells {
  TokenCells(std::size_t num_hubs, CellShape cell_shape, Control& control);

  const CellShape shape;
  AlignedArray<std::uint8_t> bytes;
  AlignedArray<std::uint32_t> words;
};

// Makes rows for many calls. Tables are kept from call to call: initialising a new one costs more than a
// small batch of rows.
class TokenFactory {
 public:
  TokenFactory(const TokenSource& source, Control& control);

  // Makes rows for many nodes. ids: [count, size] node indices, -1 for padding; parts: [count, 2] numbers
  // of hubs and of holders that follow the ego; packed: [count, packed_pairs], or empty for no distances.
  // May be called from several threads at once.
  void make_rows(const TokenShape& shape, std::span<const Node> ranks, std::uint64_t copy,
                 std::span<std::int32_t> ids, std::span<std::uint16_t> parts,
                 std::span<std::uint8_t> packed, unsigned threads, Control& control);

  const TokenSource& source() const { return source_; }

 private:
  std::unique_ptr<TokenCells> take_cells(CellShape shape);
  void return_cells(std::unique_ptr<TokenCells> cells);

  const TokenSource source_;
  const Distance max_distance_;  // in any label
  Control& cells_control_;       // outlives the tables
  std::mutex lock_;
  std::vector<std::unique_ptr<TokenCells>> spare_;
};

// Computes the distances of rows one at a time, with a table of its own.
class RowDistances {
 public:
  RowDistances(const TokenSource& source, TokenCells& cells) : source_(source), cells_(cells) {}

  // Computes all distances among the members, packed; those of padding slots are 255.
  void pack(std::span<const Node> members, std::span<std::uint8_t> packed);
  // Prefetches the labels of the members of a row.
  void prefetch(std::span<const Node> members) const;

 private:
  void byte_distances(std::span<const Node> members, std::span<std::uint8_t> packed);
  void word_distances(std::span<const Node> members, std::span<std::uint8_t> packed);

  const TokenSource& source_;
  TokenCells& cells_;
  std::vector<Node> touched_;
};

// Expands packed rows to [count, size, size]: 0 on the diagonal, 255 for padding slots.
void unpack_rows(std::span<const std::int32_t> ids, std::span<const std::uint8_t> packed,
                 std::size_t size, bool directed, std::span<std::uint8_t> square, unsigned threads,
                 Control& control);

}  // namespace dhilgt
