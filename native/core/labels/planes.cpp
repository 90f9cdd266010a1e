#include "labels/planes.h"

#include <algorithm>

#include "base/simd.h"

namespace dhilgt {

#if defined(__x86_64__)
namespace avx512 {
void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);
}
namespace avx2 {
void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);
}
#endif
namespace portable {
void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);
}

namespace {

PlaneLevelFunction level_function() {
#if defined(__x86_64__)
  switch (simd_level()) {
    case Simd::avx512: return avx512::plane_level;
    case Simd::avx2: return avx2::plane_level;
    default: break;
  }
#endif
  return portable::plane_level;
}

}  // namespace

PlaneWorker::PlaneWorker(Node num_nodes, Control& control)
    : num_nodes_(num_nodes),
      clean_(control, std::size_t{num_nodes} * kPlaneWords),
      covered_(control, std::size_t{num_nodes} * kPlaneWords),
      next_clean_(control, std::size_t{num_nodes} * kPlaneWords),
      next_covered_(control, std::size_t{num_nodes} * kPlaneWords),
      seen_(control, std::size_t{num_nodes} * kPlaneWords),
      state_(control, num_nodes),
      next_state_(control, num_nodes),
      full_(control, num_nodes),
      out_nodes_(&control, kPieceNodes),
      out_counts_(&control, kPieceNodes),
      out_hubs_(&control, std::size_t{kPieceNodes} * kPlaneHubs) {}

std::uint64_t PlaneWorker::bytes_for(Node num_nodes) {
  return std::uint64_t{num_nodes} * (5 * sizeof(std::uint64_t) * kPlaneWords + 3) +
         std::uint64_t{kPieceNodes} * (kPlaneHubs * 2 + 6);
}

PlaneBlock PlaneWorker::run(const Adjacency& pull, Node first_hub, Node last_hub,
                            Distance max_levels, Control& control) {
  PlaneBlock block{first_hub,
                   last_hub,
                   Buffer<PlaneBlock::Mark>(&control),
                   Buffer<Node>(&control),
                   Buffer<std::uint16_t>(&control),
                   Buffer<std::uint16_t>(&control)};
  seen_.fill_zero();
  state_.fill_zero();
  full_.fill_zero();
  for (Node hub = first_hub; hub < last_hub; ++hub) {  // level 0: each hub reaches itself
    const Node local = hub - first_hub;
    const std::size_t row = std::size_t{hub} * kPlaneWords;
    std::fill_n(clean_.data() + row, kPlaneWords, 0);
    std::fill_n(covered_.data() + row, kPlaneWords, 0);
    clean_[row + local / 64] = seen_[row + local / 64] = std::uint64_t{1} << (local % 64);
    state_[hub] = kSomeClean;
  }

  const PlaneLevelFunction level_kernel = level_function();
  bool any_clean = true;
  for (Distance depth = 1; any_clean && depth <= max_levels; ++depth) {
    any_clean = false;
    const PlaneLevel level{pull.offsets.data(), pull.targets.data(),  first_hub,
                           last_hub,            clean_.data(),        covered_.data(),
                           state_.data(),       next_clean_.data(),   next_covered_.data(),
                           next_state_.data(),  seen_.data(),         full_.data()};
    for (Node begin = 0; begin < num_nodes_; begin += kPieceNodes) {
      control.check();
      const Node end = std::min<Node>(num_nodes_, begin + kPieceNodes);
      PlaneOutput output{out_nodes_.data(), out_counts_.data(), out_hubs_.data(), 0, 0, 0, false};
      level_kernel(level, begin, end, output);
      block.nodes.append(output.nodes, output.num_nodes);
      block.counts.append(output.counts, output.num_nodes);
      block.local_hubs.append(output.local_hubs, output.num_entries);
      block.marks.push_back({block.nodes.size(), block.local_hubs.size()});
      block.num_arcs += output.num_arcs;
      any_clean |= output.any_clean;
    }
    if (any_clean) block.num_levels = depth;
    clean_.swap(next_clean_);
    covered_.swap(next_covered_);
    state_.swap(next_state_);
  }
  block.marks.shrink_to_fit();
  block.nodes.shrink_to_fit();
  block.counts.shrink_to_fit();
  block.local_hubs.shrink_to_fit();
  block.complete = !any_clean;
  return block;
}

}  // namespace dhilgt
