// One level of a bit-plane block, as plain pointers so that each SIMD build of it stands alone.
//
// A block follows up to 512 hubs at once. Per node and hub it knows two bits of the current level:
//   clean    the hub arrives here and nothing ranked better lies on any shortest path to it
//   covered  the hub arrives here, but something better does
// A node takes the union over its neighbours; `covered` wins, and a node that outranks the hub turns
// clean into covered. What stays clean is a label entry. No label is ever read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dhilgt {

inline constexpr std::uint32_t kPlaneHubs = 512;
inline constexpr std::uint32_t kPlaneWords = kPlaneHubs / 64;
inline constexpr std::uint32_t kPrefetchArcs = 12;  // targets must be readable this far past its end

// What a node holds of one level.
enum : std::uint8_t { kIdle = 0, kCoveredOnly = 1, kSomeClean = 2 };

struct PlaneLevel {
  // the graph
  const std::uint64_t* offsets;
  const std::uint32_t* targets;
  // the block: hubs [first_hub, last_hub)
  std::uint32_t first_hub;
  std::uint32_t last_hub;
  // planes of the level before and of this one, kPlaneWords a node; a row is valid only where the
  // node's state says so, which saves clearing it and often reading it
  const std::uint64_t* clean;
  const std::uint64_t* covered;
  const std::uint8_t* state;
  std::uint64_t* next_clean;
  std::uint64_t* next_covered;
  std::uint8_t* next_state;
  std::uint64_t* seen;  // hubs that arrived at any level so far
  std::uint8_t* full;   // 1 where all of them have
};

struct PlaneOutput {
  std::uint32_t* nodes;       // nodes that got entries, in the order visited
  std::uint16_t* counts;      // and how many
  std::uint16_t* local_hubs;  // hubs relative to first_hub, ascending per node
  std::size_t num_nodes;
  std::size_t num_entries;
  std::uint64_t num_arcs;     // arcs looked at, for the cost model
  bool any_clean;
};

// Computes this level for nodes [begin, end). Room needed in `output`: end - begin nodes and
// kPlaneHubs * (end - begin) hubs.
using PlaneLevelFunction = void (*)(const PlaneLevel&, std::uint32_t begin, std::uint32_t end,
                                    PlaneOutput& output);

}  // namespace dhilgt
