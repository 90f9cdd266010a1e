// The entries of one distance in the label of a node. Without includes of the core: SIMD builds use it.
#pragma once

#include <cstdint>

namespace dhilgt {

struct Segment {
  std::uint32_t distance;
  std::uint32_t end;  // position after the last hub, relative to the first entry of the node
};

}  // namespace dhilgt
