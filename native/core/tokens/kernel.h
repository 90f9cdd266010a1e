// The inner loop of token distances: the label of one member against the columns of the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "labels/segment.h"

namespace dhilgt {

// With label distances of at most 63, sums of two are below 128, and an unset cell plus a distance is
// at least 128 and below 256: bytes do not overflow, and values of 128 and more mean unreachable.
inline constexpr std::uint8_t kUnsetCell = 128;
inline constexpr std::uint32_t kMaxByteDistance = 63;
inline constexpr std::size_t kByteColumns = 64;  // the most members the byte kernel supports

// A label as plain pointers: every SIMD build includes this header (see labels/planes_kernel.inc).
struct TokenLabel {
  const std::uint32_t* hubs;
  const Segment* segments;
  std::size_t num_segments;
};

struct TokenTable {
  std::uint8_t* cells;         // [hub][width], unset between rows
  std::size_t width;           // 32 or 64
  std::uint32_t* touched;      // hubs with a set cell: the only ones to clear
  std::size_t num_touched;
};

// Over all entries of the label: if row is not null, row[j] = min of cells[hub][j] + distance; then, if
// `member` is not kNoColumn, cells[hub][member] = distance.
using TokenMemberFunction = void (*)(const TokenLabel& label, std::uint32_t member, TokenTable& table,
                                     std::uint8_t* row);
inline constexpr std::uint32_t kNoColumn = 0xFFFFFFFFu;

// Unsets all touched cells, for the next row.
using TokenClearFunction = void (*)(TokenTable& table);

struct TokenKernel {
  TokenMemberFunction member;
  TokenClearFunction clear;
};
TokenKernel token_kernel();  // for the SIMD level in use

}  // namespace dhilgt
