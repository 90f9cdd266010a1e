// Random numbers that depend only on a key: the same on every platform and thread, in any order of calls.
#pragma once

#include <cstdint>

namespace dhilgt {

// SplitMix64 (Steele, Lea, Flood 2014): a counter passed through a mixing function.
class KeyedRandom {
 public:
  KeyedRandom(std::uint64_t seed, std::uint64_t copy, std::uint64_t node)
      : state_(mix(mix(mix(seed) ^ copy) ^ node)) {}

  std::uint64_t next() { return mix(state_ += kStep); }

  // Uniform in [0, bound), without bias (Lemire 2019); bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t biased = -bound % bound;
      while (static_cast<std::uint64_t>(product) < biased) {
        product = static_cast<unsigned __int128>(next()) * bound;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
  static std::uint64_t mix(std::uint64_t z) {
    z += kStep;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace dhilgt
