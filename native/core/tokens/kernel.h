// The inner loop of token distances: one member's label against the columns of the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "labels/segment.h"

namespace dhilgt {

// Distances in labels of at most 63 leave sums below 128; an unset cell plus any distance stays at or
// above 128 and below 256. So bytes need no saturation, and one comparison tells what is unreachable.
inline constexpr std::uint8_t kUnsetCell = 128;
inline constexpr std::uint32_t kMaxByteDistance = 63;
inline constexpr std::size_t kByteColumns = 64;  // most members the byte kernel can take

// A label as plain pointers: this header is read by every SIMD build (see planes_kernel.inc).
struct TokenLabel {
  const std::uint32_t* hubs;
  const Segment* segments;
  std::size_t num_segments;
};

struct TokenTable {
  std::uint8_t* cells;         // [hub][width], unset between rows
  std::size_t width;           // 32 or 64
  std::uint32_t* touched;      // hubs with a set cell, so that only these are cleared
  std::size_t num_touched;
};

// Reads label (hubs, segments): row[j] = min over hubs of cells[hub][j] + distance, if row is not null;
// then, if `member` is a column, sets cells[hub][member] = distance.
using TokenMemberFunction = void (*)(const TokenLabel& label, std::uint32_t member, TokenTable& table,
                                     std::uint8_t* row);
inline constexpr std::uint32_t kNoColumn = 0xFFFFFFFFu;

// Unsets every touched cell, for the next row.
using TokenClearFunction = void (*)(TokenTable& table);

struct TokenKernel {
  TokenMemberFunction member;
  TokenClearFunction clear;
};
TokenKernel token_kernel();  // of the SIMD level in use

}  // namespace dhilgt
