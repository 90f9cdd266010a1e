// Weighted draws without replacement from a list grouped by distance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "labels/set.h"

namespace dhilgt {

// x^exponent by multiplications and square roots only. IEEE 754 defines the rounding of both, so the
// result is the same on every platform; std::pow does not guarantee this. x >= 1.
double exact_power(double x, double exponent);

// distance^exponent for small distances, computed once.
class DistanceWeights {
 public:
  explicit DistanceWeights(double exponent);
  // Weight of `distance` relative to that of `heaviest`: at most 1 if `heaviest` has the larger weight.
  double relative(Distance distance, Distance heaviest) const;
  double exponent() const { return exponent_; }

 private:
  static constexpr Distance kTable = 256;
  double exponent_;
  double table_[kTable];  // distance^exponent
};

// Draws 0 .. count - 1 in random order, one at a time: a Fisher-Yates shuffle that stores only the
// positions that changed. The k-th draw costs O(k), independent of the count.
class ShuffledDraw {
 public:
  void reset(std::size_t count) {
    left_ = count;
    swaps_.clear();
  }
  std::size_t left() const { return left_; }
  std::size_t next(KeyedRandom& random);  // requires left() > 0

 private:
  struct Swap {
    std::size_t at;
    std::size_t holds;
  };
  std::size_t holds(std::size_t at) const;

  std::size_t left_ = 0;
  std::vector<Swap> swaps_;
};

// Draws positions of a label, without its self entry and without replacement: at each step the
// probability of an entry is proportional to distance^exponent among the remaining ones. The cost depends
// on the quota, not on the length of the label.
class LabelSampler {
 public:
  // Appends `quota` positions to `chosen`, ascending; all positions if there are no more than that.
  void draw(const LabelView& label, const DistanceWeights& weights, std::size_t quota,
            KeyedRandom& random, std::vector<Node>& chosen);

 private:
  struct Pool {  // entries of similar weight: of one distance, or of a small range of distances
    Distance nearest;
    Distance farthest;
    Node begin;     // position of the first entry
    Node left;      // number of entries not drawn yet
    double weight;  // of its heaviest distance, relative to the heaviest remaining pool
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
  std::vector<Swap> swaps_;  // positions that now hold another one
};

}  // namespace dhilgt
