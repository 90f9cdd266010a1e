// Labels restricted to the best hubs, for pruning: groups as in groups.h, in one array that may be a
// mapped file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "labels/groups.h"

namespace dhilgt {

// A table with more hubs or longer distances has words of four bytes.
inline constexpr Node kMostShortHubs = 65024;
inline constexpr Distance kMostShortDistance = 65535;

template <class Word>
struct TopView {
  std::span<const Offset> starts;  // n + 1, in groups
  std::span<const Word> words;     // kGroupWords per group

  std::span<const Word> of(Node node) const {
    return words.subspan(starts[node] * kGroupWords, (starts[node + 1] - starts[node]) * kGroupWords);
  }
  void prefetch_place(Node node) const { __builtin_prefetch(starts.data() + node); }
  void prefetch(Node node) const {
    const char* line = reinterpret_cast<const char*>(words.data() + starts[node] * kGroupWords);
    const std::size_t bytes =
        std::min<std::size_t>((starts[node + 1] - starts[node]) * kGroupWords * sizeof(Word), 512);
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(line + i);
  }
};

}  // namespace dhilgt
