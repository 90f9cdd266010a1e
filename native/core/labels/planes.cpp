#include "labels/planes.h"

#include <algorithm>

#include "base/simd.h"

namespace dhilgt {

#define DHILGT_DECLARE_LEVELS                                                                            \
  namespace words8 {                                                                                     \
  void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);                       \
  }                                                                                                      \
  namespace words4 {                                                                                     \
  void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);                       \
  }                                                                                                      \
  namespace words2 {                                                                                     \
  void plane_level(const PlaneLevel&, std::uint32_t, std::uint32_t, PlaneOutput&);                       \
  }

#if defined(__x86_64__)
namespace avx512 {
DHILGT_DECLARE_LEVELS
}
namespace avx2 {
DHILGT_DECLARE_LEVELS
}
#endif
namespace portable {
DHILGT_DECLARE_LEVELS
}

namespace {

PlaneLevelFunction level_function(std::uint32_t words) {
  auto of_width = [&](PlaneLevelFunction wide, PlaneLevelFunction half, PlaneLevelFunction quarter) {
    return words == 8 ? wide : words == 4 ? half : quarter;
  };
#if defined(__x86_64__)
  switch (simd_level()) {
    case Simd::avx512:
      return of_width(avx512::words8::plane_level, avx512::words4::plane_level, avx512::words2::plane_level);
    case Simd::avx2:
      return of_width(avx2::words8::plane_level, avx2::words4::plane_level, avx2::words2::plane_level);
    default: break;
  }
#endif
  return of_width(portable::words8::plane_level, portable::words4::plane_level,
                  portable::words2::plane_level);
}

}  // namespace

PlaneWorker::PlaneWorker(Node num_nodes, Control& control, std::uint32_t words)
    : num_nodes_(num_nodes),
      words_(words),
      clean_(control, std::size_t{num_nodes} * words),
      covered_(control, std::size_t{num_nodes} * words),
      next_clean_(control, std::size_t{num_nodes} * words),
      next_covered_(control, std::size_t{num_nodes} * words),
      seen_(control, std::size_t{num_nodes} * words),
      state_(control, num_nodes),
      next_state_(control, num_nodes),
      full_(control, num_nodes),
      out_nodes_(&control, kPieceNodes),
      out_counts_(&control, kPieceNodes),
      out_hubs_(&control, std::size_t{std::min(num_nodes, kPieceNodes)} * words * 64) {}

std::uint64_t PlaneWorker::bytes_for(Node num_nodes, std::uint32_t words) {
  return std::uint64_t{num_nodes} * (5 * sizeof(std::uint64_t) * words + 3) +
         std::uint64_t{std::min(num_nodes, kPieceNodes)} * words * 64 * 2 + std::uint64_t{kPieceNodes} * 6;
}

PlaneBlock PlaneWorker::run(const ArcsView& pull, Node first_hub, Node last_hub,
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
    const std::size_t row = std::size_t{hub} * words_;
    std::fill_n(clean_.data() + row, words_, 0);
    std::fill_n(covered_.data() + row, words_, 0);
    clean_[row + local / 64] = seen_[row + local / 64] = std::uint64_t{1} << (local % 64);
    state_[hub] = kSomeClean;
  }

  const PlaneLevelFunction level_kernel = level_function(words_);
  bool any_clean = true;
  for (Distance depth = 1; any_clean; ++depth) {
    if (depth > max_levels) return block;
    any_clean = false;
    const PlaneLevel level{pull.offsets,        pull.targets,         first_hub,
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
  block.complete = true;
  return block;
}

}  // namespace dhilgt
