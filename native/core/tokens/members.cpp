#include "tokens/members.h"

#include <algorithm>
#include <span>

namespace dhilgt {

TokenParts MemberSampler::sample(Node rank, Node node, std::uint64_t copy, const LabelView& hubs,
                                 const LabelView& holders, std::vector<Node>& members) {
  KeyedRandom random(shape_.seed, copy, node);
  std::size_t out_quota = shape_.num_out;
  std::size_t in_quota = shape_.num_in;
  if (shape_.spill) {
    const std::size_t spare_out = out_quota - std::min(out_quota, hubs.hubs.size() - 1);
    const std::size_t spare_in = in_quota - std::min(in_quota, holders.hubs.size() - 1);
    out_quota += spare_in;
    in_quota += spare_out;
  }
  members.assign(1, rank);
  auto draw = [&](const LabelView& label, const DistanceWeights& weights, std::size_t quota) {
    positions_.clear();
    sampler_.draw(label, weights, quota, random, positions_);
    for (const Node position : positions_) members.push_back(label.hubs[position]);
    return static_cast<std::uint16_t>(positions_.size());
  };
  TokenParts parts{};
  parts.hubs = draw(hubs, weights_.out, out_quota);
  parts.holders = draw(holders, weights_.in, in_quota);
  if (shape_.fill_neighbors) fill_with_neighbors(hubs, holders, random, members);
  return parts;
}

// Neighbours are the label entries at distance 1: the better ranked are hubs, the worse ranked holders.
// They are drawn in random order, and those already in the row are skipped: at most `size` draws are
// skipped, so the cost does not depend on the number of neighbours.
void MemberSampler::fill_with_neighbors(const LabelView& hubs, const LabelView& holders, KeyedRandom& random,
                                        std::vector<Node>& members) {
  auto neighbors = [](const LabelView& label) {
    const bool any = label.segments.size() > 1 && label.segments[1].distance == 1;
    return label.hubs.subspan(1, any ? label.segments[1].end - 1 : 0);
  };
  const std::span<const Node> better = neighbors(hubs);
  const std::span<const Node> worse = neighbors(holders);
  neighbor_draw_.reset(better.size() + worse.size());
  while (members.size() < shape_.size && neighbor_draw_.left() > 0) {
    const std::size_t at = neighbor_draw_.next(random);
    const Node drawn = at < better.size() ? better[at] : worse[at - better.size()];
    if (std::find(members.begin(), members.end(), drawn) == members.end()) members.push_back(drawn);
  }
}

}  // namespace dhilgt
