// Shared state of a long native call and its caller: the request to stop, progress, the memory budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace dhilgt {

// The caller asked to stop (Ctrl-C); there is no result.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped by the caller") {}
};

// The work needs more memory than its budget; carries the numbers for the caller's message.
struct OutOfBudget : std::runtime_error {
  OutOfBudget(std::uint64_t needed, std::uint64_t limit, std::uint64_t entries);
  std::uint64_t needed_bytes;
  std::uint64_t limit_bytes;
  std::uint64_t entries_found;
};

// One per long call. The caller's thread sets `stop` and reads the counters; the workers update them.
class Control {
 public:
  explicit Control(std::uint64_t max_bytes = UINT64_MAX) : max_bytes_(max_bytes) {}

  // Throws Stopped if asked to stop. Workers call it at least every few milliseconds.
  void check() const {
    if (stop.load(std::memory_order_relaxed)) throw Stopped();
  }

  // Charges memory to the budget before it is allocated; throws OutOfBudget if it does not fit.
  void charge(std::uint64_t bytes);
  void release(std::uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t free_bytes() const {
    const std::uint64_t used = used_bytes();
    return used < max_bytes_ ? max_bytes_ - used : 0;
  }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }

  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> done{0};     // units of work finished
  std::atomic<std::uint64_t> total{0};    // units of work in all; 0 if unknown
  std::atomic<std::uint64_t> entries{0};  // label entries found so far

 private:
  const std::uint64_t max_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
};

}  // namespace dhilgt
