// Some of the ranks [0, n), numbered 0, 1, 2, ... in ascending order, in one and a half bits per rank.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"

namespace dhilgt {

// First `add` ranks, from any number of threads, then `finish` once; numbers are known from then on.
class RankNumbers {
 public:
  RankNumbers(Node num_ranks, Control& control) : words_(&control), before_(&control) {
    words_.assign(std::size_t{num_ranks} / 64 + 1, 0);
  }

  void add(Node rank) {
    const std::atomic_ref<std::uint64_t> word(words_[rank / 64]);
    const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
    // Most ranks are added many times: a read is cheaper than a write that changes nothing.
    if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
  }

  void finish() {
    before_.resize(words_.size());
    for (std::size_t i = 0; i < words_.size(); ++i) {
      before_[i] = count_;
      count_ += count_bits(words_[i]);
    }
  }

  Node count() const { return count_; }  // of distinct ranks
  Node operator[](Node rank) const {  // of a rank that was added
    const std::uint64_t below = (std::uint64_t{1} << (rank % 64)) - 1;
    return before_[rank / 64] + count_bits(words_[rank / 64] & below);
  }

  // Calls visit(rank) for all ranks, ascending.
  template <class Visit>
  void each(Visit&& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(static_cast<Node>(64 * i + static_cast<std::size_t>(std::countr_zero(left))));
      }
    }
  }

 private:
  // std::popcount is a call of a function where the build does not assume the instruction.
  static Node count_bits(std::uint64_t word) {
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return static_cast<Node>((word * 0x0101010101010101u) >> 56);
  }

  Buffer<std::uint64_t> words_;  // a bit per rank
  Buffer<Node> before_;          // how many bits are set before each word
  Node count_ = 0;
};

}  // namespace dhilgt
