// From an edge list to clean compressed rows: no self-loops, no duplicates, neighbours ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/control.h"

namespace dhilgt {

// Targets are int32 and one value is kept free as padding, so a graph has fewer nodes than this.
inline constexpr std::int64_t kNodeLimit = 2147483647;

struct Csr {
  std::vector<std::int64_t> offsets;  // num_nodes + 1
  std::vector<std::int32_t> targets;  // ascending within a row
};

struct CleanCsr : Csr {
  std::uint64_t self_loops = 0;      // input edges (v, v), each occurrence
  std::uint64_t duplicates = 0;      // other input edges whose ordered pair was seen before
  std::uint64_t reversed_added = 0;  // edges (v, u) that the input held only as (u, v)
};

// Position of the first value outside [0, limit), or `count`.
template <class Index>
std::size_t first_outside(const Index* values, std::size_t count, std::int64_t limit);

// Throws std::invalid_argument unless 1 <= num_nodes < kNodeLimit.
void check_num_nodes(std::int64_t num_nodes);

// Every endpoint must lie in [0, num_nodes). The result does not depend on `threads`.
template <class Index>
CleanCsr build_csr(const Index* sources, const Index* targets, std::size_t num_edges,
                   std::int64_t num_nodes, bool directed, unsigned threads, Control& control);

// Rows of the result are the columns of the input. `offsets` must describe `targets`, all in range.
Csr transpose(const std::int64_t* offsets, const std::int32_t* targets, std::int64_t num_nodes,
              Control& control);

}  // namespace dhilgt
