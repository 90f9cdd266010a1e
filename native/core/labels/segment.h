// Where the entries of one distance end in a node's label.
#pragma once

#include <cstdint>

namespace dhilgt {

struct Segment {
  std::uint32_t distance;
  std::uint32_t end;  // position after its last hub, relative to the node's first entry
};

}  // namespace dhilgt
