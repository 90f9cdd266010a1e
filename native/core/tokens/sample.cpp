#include "tokens/sample.h"

#include <algorithm>
#include <cmath>

namespace dhilgt {

double exact_power(double x, double exponent) {
  const bool inverse = exponent < 0;
  double rest = inverse ? -exponent : exponent;
  double result = 1.0;
  double whole = std::floor(rest);
  rest -= whole;
  for (double factor = x; whole >= 1.0; factor *= factor) {
    const double half = std::floor(whole / 2);
    if (whole - 2 * half > 0) result *= factor;
    whole = half;
  }
  for (double factor = std::sqrt(x); rest > 0 && factor > 1.0; factor = std::sqrt(factor)) {
    rest *= 2;
    if (rest >= 1.0) {
      result *= factor;
      rest -= 1.0;
    }
  }
  return inverse ? 1.0 / result : result;
}

DistanceWeights::DistanceWeights(double exponent) : exponent_(exponent) {
  table_[0] = 0.0;
  for (Distance distance = 1; distance < kTable; ++distance) {
    table_[distance] = exact_power(distance, exponent);
  }
}

double DistanceWeights::relative(Distance distance, Distance heaviest) const {
  if (distance == heaviest) return 1.0;
  if (distance < kTable && heaviest < kTable) {
    const double weight = table_[distance] / table_[heaviest];
    if (weight > 0 && weight <= 1.0) return weight;
  }
  // Power of the ratio: the powers themselves may overflow.
  const double ratio = static_cast<double>(distance) / static_cast<double>(heaviest);
  return ratio >= 1.0 ? exact_power(ratio, exponent_) : exact_power(1.0 / ratio, -exponent_);
}

std::size_t ShuffledDraw::holds(std::size_t at) const {
  for (const Swap& swap : swaps_) {
    if (swap.at == at) return swap.holds;
  }
  return at;
}

std::size_t ShuffledDraw::next(KeyedRandom& random) {
  const auto at = static_cast<std::size_t>(random.below(left_));
  const std::size_t drawn = holds(at);
  const std::size_t last = holds(--left_);
  const auto known = std::find_if(swaps_.begin(), swaps_.end(), [at](const Swap& swap) { return swap.at == at; });
  if (known != swaps_.end()) known->holds = last;
  else swaps_.push_back({at, last});
  return drawn;
}

void LabelSampler::make_pools(const LabelView& label, const DistanceWeights& weights) {
  pools_.clear();
  const std::span<const Segment> segments = label.segments.subspan(1);  // after the self entry
  if (segments.size() <= kManySegments) {
    Node begin = 1;
    for (const Segment& segment : segments) {
      pools_.push_back({segment.distance, segment.distance, begin, segment.end - begin, 1.0});
      begin = segment.end;
    }
    return;
  }
  // Many distances (long paths): each pool is a range of distances whose weights differ by at most a
  // factor of two. The number of pools is logarithmic in the longest distance.
  const double widest = exact_power(2.0, 1.0 / std::max(1.0, std::fabs(weights.exponent())));
  Node begin = 1;
  for (std::size_t first = 0; first < segments.size();) {
    const double farthest = std::floor(segments[first].distance * widest);
    const auto past = std::upper_bound(
        segments.begin() + static_cast<std::ptrdiff_t>(first) + 1, segments.end(), farthest,
        [](double value, const Segment& segment) { return value < segment.distance; });
    const Segment& last = *(past - 1);
    pools_.push_back({segments[first].distance, last.distance, begin, last.end - begin, 1.0});
    begin = last.end;
    first = static_cast<std::size_t>(past - segments.begin());
  }
}

// Weights are relative to the heaviest remaining pool: none overflows, and the largest is 1.
void LabelSampler::weigh_pools(const DistanceWeights& weights) {
  const bool near_first = weights.exponent() <= 0;
  std::erase_if(pools_, [](const Pool& pool) { return pool.left == 0; });
  if (pools_.empty()) return;
  const Distance heaviest = near_first ? pools_.front().nearest : pools_.back().farthest;
  for (Pool& pool : pools_) {
    pool.weight = weights.relative(near_first ? pool.nearest : pool.farthest, heaviest);
  }
}

LabelSampler::Pool& LabelSampler::pick_pool(KeyedRandom& random) {
  double total = 0;
  for (const Pool& pool : pools_) total += pool.left * pool.weight;
  double point = random.unit() * total;
  for (Pool& pool : pools_) {
    point -= pool.left * pool.weight;
    if (point < 0) return pool;
  }
  return pools_.back();  // only by rounding
}

// A Fisher-Yates shuffle of the pool that stores only the positions that changed.
Node LabelSampler::entry_at(const Pool& pool, Node index) const {
  const Node at = pool.begin + index;
  for (const Swap& swap : swaps_) {
    if (swap.at == at) return swap.holds;
  }
  return at;
}

void LabelSampler::remove(Pool& pool, Node index) {
  const Node at = pool.begin + index;
  const Node last = entry_at(pool, --pool.left);
  for (Swap& swap : swaps_) {
    if (swap.at == at) {
      swap.holds = last;
      return;
    }
  }
  swaps_.push_back({at, last});
}

void LabelSampler::draw(const LabelView& label, const DistanceWeights& weights, std::size_t quota,
                        KeyedRandom& random, std::vector<Node>& chosen) {
  const std::size_t available = label.hubs.size() - 1;
  if (available <= quota) {
    for (Node position = 1; position <= available; ++position) chosen.push_back(position);
    return;
  }
  const auto first_chosen = static_cast<std::ptrdiff_t>(chosen.size());
  make_pools(label, weights);
  weigh_pools(weights);
  swaps_.clear();
  for (std::size_t drawn = 0; drawn < quota;) {
    Pool& pool = pick_pool(random);
    const auto index = static_cast<Node>(random.below(pool.left));
    const Node position = entry_at(pool, index);
    if (pool.nearest != pool.farthest) {  // a range: accept the entry according to its own weight
      const auto segment =
          std::upper_bound(label.segments.begin(), label.segments.end(), position,
                           [](Node value, const Segment& candidate) { return value < candidate.end; });
      const Distance heaviest = weights.exponent() <= 0 ? pool.nearest : pool.farthest;
      if (random.unit() >= weights.relative(segment->distance, heaviest)) continue;
    }
    remove(pool, index);
    chosen.push_back(position);
    ++drawn;
    if (pool.left == 0) weigh_pools(weights);
  }
  std::sort(chosen.begin() + first_chosen, chosen.end());
}

}  // namespace dhilgt
