// Buffers keep their values while they grow, and their Control counts every byte.
#include <numeric>

#include "base/buffer.h"
#include "check.h"

namespace dhilgt {
namespace {

constexpr std::size_t kLargeBlock = std::size_t{1} << 18;  // larger blocks are mapped from the system

void values_survive_a_change_of_block_kind() {
  Control control;
  Buffer<std::uint32_t> buffer(&control);
  for (std::uint32_t i = 0; i < kLargeBlock; ++i) buffer.push_back(i);  // 1 MiB, four times the limit
  for (std::uint32_t i = 0; i < kLargeBlock; ++i) CHECK(buffer[i] == i);
  CHECK(control.used_bytes() == buffer.capacity_bytes());
  for (const std::size_t size : {kLargeBlock / 2, kLargeBlock / 4, kLargeBlock / 4 - 1, std::size_t{3}}) {
    buffer.resize(size);
    buffer.shrink_to_fit();
    CHECK(buffer.capacity() == size);
    for (std::uint32_t i = 0; i < size; ++i) CHECK(buffer[i] == i);
    CHECK(control.used_bytes() == size * sizeof(std::uint32_t));
  }
  buffer.resize(0);
  buffer.shrink_to_fit();
  CHECK(buffer.data() == nullptr && control.used_bytes() == 0);
}

void a_budget_is_checked_before_allocation() {
  Control control(1000);
  Buffer<std::uint8_t> buffer(&control, 900);
  buffer[899] = 7;
  CHECK_THROWS(OutOfBudget, buffer.resize(1001));
  CHECK(buffer.size() == 900 && buffer[899] == 7 && control.used_bytes() == 900);
  try {
    AlignedArray<std::uint64_t> array(control, 100);
    CHECK(false);
  } catch (const OutOfBudget& error) {
    CHECK(error.needed_bytes == 1700 && error.limit_bytes == 1000);
  }
  CHECK(control.free_bytes() == 100 && control.peak_bytes() == 900);
  buffer.clear();
  CHECK(control.used_bytes() == 0);
}

void a_failed_allocation_changes_nothing() {
  Control control;
  Buffer<std::uint64_t> buffer(&control, 4);
  std::iota(buffer.begin(), buffer.end(), 1);
  CHECK_THROWS(std::bad_alloc, buffer.resize(SIZE_MAX / 8));     // the system refuses
  CHECK_THROWS(std::bad_alloc, buffer.resize(SIZE_MAX / 8 + 1));  // the number of bytes overflows
  CHECK(buffer.size() == 4 && buffer[3] == 4 && control.used_bytes() == 32);
}

void moving_keeps_the_accounting() {
  Control control;
  Buffer<int> one(&control, 10);
  Buffer<int> two = std::move(one);
  CHECK(one.empty() && two.size() == 10 && control.used_bytes() == 40);
  {
    Buffer<int> three(&control, 5);
    three = std::move(two);
    CHECK(three.size() == 10);
  }
  CHECK(control.used_bytes() == 5 * sizeof(int));  // `two` now has the memory of `three`
  two.detach();
  CHECK(two.size() == 5 && control.used_bytes() == 0);
}

void appending_nothing_allocates_nothing() {
  Buffer<int> buffer;
  buffer.append(nullptr, 0);
  CHECK(buffer.empty() && buffer.data() == nullptr);
  buffer.assign(0, 1);
  buffer.shrink_to_fit();
  CHECK(buffer.view().empty());
}

void aligned_arrays_are_aligned() {
  Control control;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kHugePage / 8 + 1}) {
    AlignedArray<std::uint64_t> array(control, size);
    array.fill_zero();
    const auto address = reinterpret_cast<std::uintptr_t>(array.data());
    CHECK(address % (size * 8 >= kHugePage ? kHugePage : 64) == 0);
    CHECK(control.used_bytes() == size * 8);
  }
  CHECK(control.used_bytes() == 0);
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("values survive a change of block kind", values_survive_a_change_of_block_kind);
  check::run("a budget is checked before allocation", a_budget_is_checked_before_allocation);
  check::run("a failed allocation changes nothing", a_failed_allocation_changes_nothing);
  check::run("moving keeps the accounting", moving_keeps_the_accounting);
  check::run("appending nothing allocates nothing", appending_nothing_allocates_nothing);
  check::run("aligned arrays are aligned", aligned_arrays_are_aligned);
}
