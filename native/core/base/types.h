// Integer types that graphs, labels and tokens share, and the pieces that nodes are processed in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dhilgt {

using Node = std::uint32_t;      // node index or rank
using Offset = std::uint64_t;    // position in an array of entries
using Distance = std::uint32_t;  // hops

inline constexpr Node kNoNode = 0xFFFFFFFFu;
inline constexpr Distance kUnreachable = 0xFFFFFFFFu;

// Nodes are processed in pieces of this many. This bounds the size of a piece's output and the delay
// until a request to stop is noticed, and finished pieces can be freed one by one.
inline constexpr Node kPieceNodes = 2048;
inline std::size_t num_pieces(Node num_nodes) {
  return (std::size_t{num_nodes} + kPieceNodes - 1) / kPieceNodes;
}

}  // namespace dhilgt
