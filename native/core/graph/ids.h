// Arbitrary 64-bit ids as indices: the position of the id among all ids in ascending order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/control.h"

namespace dhilgt {

struct CompactIds {
  std::vector<std::int64_t> ids;  // ascending, distinct
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> targets;
};

// Throws std::invalid_argument when there are too many distinct ids.
CompactIds compact_ids(const std::int64_t* sources, const std::int64_t* targets,
                       std::size_t num_edges, unsigned threads, Control& control);

}  // namespace dhilgt
