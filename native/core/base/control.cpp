#include "base/control.h"

namespace dhilgt {

OutOfBudget::OutOfBudget(std::uint64_t needed, std::uint64_t limit, std::uint64_t entries)
    : std::runtime_error("needs " + std::to_string(needed) + " bytes, limit " +
                         std::to_string(limit)),
      needed_bytes(needed),
      limit_bytes(limit),
      entries_found(entries) {}

void Control::charge(std::uint64_t bytes) {
  const std::uint64_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (used > max_bytes_) {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    throw OutOfBudget(used, max_bytes_, entries.load(std::memory_order_relaxed));
  }
  std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (used > peak && !peak_bytes_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

}  // namespace dhilgt
