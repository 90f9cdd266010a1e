// Edge lists as compressed sparse rows without self-loops and duplicates, neighbours ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/control.h"

namespace dhilgt {

// A graph has fewer nodes than this: targets are int32, and one value is reserved for padding.
inline constexpr std::int64_t kNodeLimit = 2147483647;

struct Csr {
  std::vector<std::int64_t> offsets;  // num_nodes + 1
  std::vector<std::int32_t> targets;  // ascending within a row
};

struct CleanCsr : Csr {
  std::uint64_t self_loops = 0;      // input edges (v, v), each occurrence counted
  std::uint64_t duplicates = 0;      // other input edges that repeat an earlier (u, v)
  std::uint64_t reversed_added = 0;  // edges (v, u) of which the input has only (u, v)
};

// Returns the position of the first value outside [0, limit), or `count` if there is none.
template <class Index>
std::size_t first_outside(const Index* values, std::size_t count, std::int64_t limit);

// Throws std::invalid_argument unless 1 <= num_nodes < kNodeLimit.
void check_num_nodes(std::int64_t num_nodes);

// Every endpoint must lie in [0, num_nodes). The result does not depend on `threads`.
template <class Index>
CleanCsr build_csr(const Index* sources, const Index* targets, std::size_t num_edges,
                   std::int64_t num_nodes, bool directed, unsigned threads, Control& control);

// The rows of the result are the columns of the input, which must be a valid CSR matrix.
Csr transpose(const std::int64_t* offsets, const std::int32_t* targets, std::int64_t num_nodes,
              Control& control);

}  // namespace dhilgt
