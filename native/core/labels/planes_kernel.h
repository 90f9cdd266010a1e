// One level of a bit-plane block, in terms of plain pointers, so that each SIMD build is self-contained.
//
// A block searches from up to 512 hubs at once; narrower planes, of 256 or 128 hubs, take less memory. Per node and hub there are two bits for the current level:
//   clean    the search reaches the node, and no shortest path between the two has a better ranked node
//   covered  the search reaches the node, and some shortest path between the two has one
// A node takes the union over its neighbours; `covered` overrides `clean`, and a node that outranks the
// hub turns clean into covered. A bit that stays clean is a label entry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dhilgt {

inline constexpr std::uint32_t kPlaneHubs = 512;
inline constexpr std::uint32_t kPlaneWords = kPlaneHubs / 64;  // of a row: 8, or 4 or 2 if narrower
inline constexpr std::uint32_t kPrefetchArcs = 12;  // targets must be readable this far past the last one

// The hubs that reach a node in one level.
enum : std::uint8_t { kIdle = 0, kCoveredOnly = 1, kSomeClean = 2 };

struct PlaneLevel {
  // The graph.
  const std::uint64_t* offsets;
  const std::uint32_t* targets;
  // The block: hubs [first_hub, last_hub).
  std::uint32_t first_hub;
  std::uint32_t last_hub;
  // The planes of the previous level and of this one, one row per node. A row is valid only if the
  // state of the node says so, which saves clearing it and often reading it.
  const std::uint64_t* clean;
  const std::uint64_t* covered;
  const std::uint8_t* state;
  std::uint64_t* next_clean;
  std::uint64_t* next_covered;
  std::uint8_t* next_state;
  std::uint64_t* seen;  // hubs that reached the node in any level so far
  std::uint8_t* full;   // 1 if all of them have
};

struct PlaneOutput {
  std::uint32_t* nodes;       // nodes with entries, ascending
  std::uint16_t* counts;      // entries of each
  std::uint16_t* local_hubs;  // hub - first_hub, ascending per node
  std::size_t num_nodes;
  std::size_t num_entries;
  std::uint64_t num_arcs;     // arcs read, for the cost model
  bool any_clean;
};

// Computes the level for nodes [begin, end). `output` needs room for end - begin nodes and
// 64 * (words of a row) * (end - begin) hubs.
using PlaneLevelFunction = void (*)(const PlaneLevel&, std::uint32_t begin, std::uint32_t end,
                                    PlaneOutput& output);

}  // namespace dhilgt
