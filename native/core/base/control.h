// What a long native call shares with its caller: stop, progress and a memory budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace dhilgt {

using Node = std::uint32_t;      // node index or rank; kNoNode marks padding
using Offset = std::uint64_t;    // position in an entry array
using Distance = std::uint32_t;  // hops

inline constexpr Node kNoNode = 0xFFFFFFFFu;
inline constexpr Distance kUnreachable = 0xFFFFFFFFu;

// The caller asked to stop (Ctrl-C); no result is produced.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped by the caller") {}
};

// The work outgrew its budget; carries the figures for the message.
struct OutOfBudget : std::runtime_error {
  OutOfBudget(std::uint64_t wanted, std::uint64_t limit, std::uint64_t entries);
  std::uint64_t wanted_bytes;
  std::uint64_t limit_bytes;
  std::uint64_t entries_found;
};

// One per long call. The caller's thread writes `stop` and reads the counters; workers do the rest.
class Control {
 public:
  explicit Control(std::uint64_t max_bytes = UINT64_MAX) : max_bytes_(max_bytes) {}

  // Called by workers at least every few milliseconds of work.
  void check() const {
    if (stop.load(std::memory_order_relaxed)) throw Stopped();
  }

  // Accounts for memory that is about to be taken; throws before it is.
  void take_bytes(std::uint64_t bytes);
  void give_bytes(std::uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t free_bytes() const {
    const std::uint64_t used = used_bytes();
    return used < max_bytes_ ? max_bytes_ - used : 0;
  }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> done{0};     // units of work finished
  std::atomic<std::uint64_t> total{0};    // units of work known so far; 0 = unknown
  std::atomic<std::uint64_t> entries{0};  // label entries found so far

 private:
  const std::uint64_t max_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
};

}  // namespace dhilgt
