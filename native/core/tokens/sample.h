// Weighted draws without replacement from a list that is grouped by distance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "labels/set.h"
#include "base/random.h"

namespace dhilgt {

// x^exponent by multiplications and square roots only: IEEE rounds both exactly, so the result is the
// same on every platform, which std::pow does not promise. x >= 1.
double exact_power(double x, double exponent);

// distance^exponent for small distances, computed once.
class DistanceWeights {
 public:
  explicit DistanceWeights(double exponent);
  // Weight of `distance` relative to that of `heaviest`: at most 1 for classes no heavier.
  double relative(Distance distance, Distance heaviest) const;
  double exponent() const { return exponent_; }

 private:
  static constexpr Distance kTable = 256;
  double exponent_;
  double table_[kTable];  // distance^exponent
};

// Draws 0 .. count - 1 in random order, one at a time: Fisher-Yates on a list that is never written, only
// the places that changed being remembered. The k-th draw costs O(k), whatever the count.
class ShuffledDraw {
 public:
  void start(std::size_t count) {
    left_ = count;
    swaps_.clear();
  }
  std::size_t left() const { return left_; }
  std::size_t next(KeyedRandom& random);  // left() > 0

 private:
  struct Swap {
    std::size_t at;
    std::size_t holds;
  };
  std::size_t holds(std::size_t at) const;

  std::size_t left_ = 0;
  std::vector<Swap> swaps_;
};

// Draws positions of a label (self entry left out) without replacement, the chance of an entry at each
// step being proportional to distance^exponent among those left. Costs O(quota), whatever the length.
class LabelSampler {
 public:
  // Appends up to `quota` positions to `chosen`, ascending; all of them when they fit.
  void draw(const LabelView& label, const DistanceWeights& weights, std::size_t quota,
            KeyedRandom& random, std::vector<Node>& chosen);

 private:
  struct Pool {  // entries of like weight: one distance, or a narrow range of them
    Distance nearest;
    Distance farthest;
    Node begin;     // position of its first entry
    Node left;      // entries not drawn yet
    double weight;  // of its heaviest distance, relative to the heaviest pool left
  };
  void make_pools(const LabelView& label, const DistanceWeights& weights);
  void weigh_pools(const DistanceWeights& weights);
  Pool& pick_pool(KeyedRandom& random);
  Node entry_at(const Pool& pool, Node index) const;
  void remove(Pool& pool, Node index);

  static constexpr std::size_t kManySegments = 64;

  std::vector<Pool> pools_;
  struct Swap {
    Node at;
    Node holds;
  };
  std::vector<Swap> swaps_;  // positions whose place another one took
};

}  // namespace dhilgt
