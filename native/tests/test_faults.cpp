// If any allocation fails, the caller gets one exception and nothing leaks.
#include <sys/mman.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <new>

#include "check.h"
#include "graphs.h"
#include "labels/holders.h"
#include "labels/pack.h"

namespace {
std::atomic<long> allocations_left{-1};  // until one fails; negative: none fails

bool should_fail() {
  return allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left.fetch_sub(1) == 0;
}
}  // namespace

// The linker redirects the allocations of the core here (--wrap); operator new is replaced below.
extern "C" {
void* __real_malloc(std::size_t);
void* __real_realloc(void*, std::size_t);
void* __real_aligned_alloc(std::size_t, std::size_t);
void* __real_mmap(void*, std::size_t, int, int, int, off_t);
void* __real_mremap(void*, std::size_t, std::size_t, int, ...);

void* __wrap_malloc(std::size_t size) { return should_fail() ? nullptr : __real_malloc(size); }
void* __wrap_realloc(void* block, std::size_t size) { return should_fail() ? nullptr : __real_realloc(block, size); }
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return should_fail() ? nullptr : __real_aligned_alloc(alignment, size);
}
void* __wrap_mmap(void* at, std::size_t size, int access, int flags, int file, off_t offset) {
  return should_fail() ? MAP_FAILED : __real_mmap(at, size, access, flags, file, offset);
}
void* __wrap_mremap(void* block, std::size_t before, std::size_t after, int flags, ...) {
  return should_fail() ? MAP_FAILED : __real_mremap(block, before, after, flags);
}
}

void* operator new(std::size_t size) {
  void* block = should_fail() ? nullptr : __real_malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return should_fail() ? nullptr : __real_malloc(size == 0 ? 1 : size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }

namespace dhilgt {
namespace {

using namespace test;

// All steps of a build.
void whole_build(const Graph& graph, Algorithm algorithm, Node planes, unsigned threads, Control& control) {
  const Ranked ranked = rank(graph, control);
  const Labels labels = build_labels(ranked.graph, {algorithm, threads, planes}, control);
  const LabelSet holders = invert_labels(labels.out_labels(), threads, control);
  const PackedLabels packed = pack_labels(labels.in, threads, control);
  const LabelSet back = unpack_labels({graph.num_nodes, packed.offsets.view(), packed.bytes.view()}, threads, control);
}

void each_allocation_may_fail() {
  const Graph graph = random_graph(60, 130, true, 1);
  for (const Algorithm algorithm : kAlgorithms) {
    for (const unsigned threads : {1u, 2u}) {
      long nth = 0;
      for (bool done = false; !done && nth < 20000; ++nth) {
        // The context is set while no allocation fails.
        check::context = "algorithm " + std::to_string(static_cast<int>(algorithm)) + " allocation " + std::to_string(nth);
        Control control;
        allocations_left = nth;
        try {
          whole_build(graph, algorithm, algorithm == Algorithm::automatic ? 20 : kPlanHubs, threads, control);
          done = allocations_left >= 0;  // fewer allocations than nth
        } catch (const std::bad_alloc&) {
        }
        allocations_left = -1;
        CHECK(control.used_bytes() == 0);
      }
      std::printf("    %ld allocations, each failed once\n", nth - 1);
      CHECK(nth > 50 && nth < 20000);
    }
  }
}

void a_build_may_run_out_of_budget_anywhere() {
  const Graph graph = random_graph(60, 130, true, 2);
  const Graph longer = path_graph(400, 3);
  for (const Graph* which : {&graph, &longer}) {
    for (const Algorithm algorithm : kAlgorithms) {
      Control unlimited;
      whole_build(*which, algorithm, kPlanHubs, 1, unlimited);
      const std::uint64_t peak = unlimited.peak_bytes();
      std::size_t refused = 0;
      for (std::uint64_t limit = 0; limit < peak; limit += limit / 50 + 64) {
        check::context = "limit " + std::to_string(limit);
        Control control(limit);
        try {
          whole_build(*which, algorithm, kPlanHubs, 2, control);
        } catch (const OutOfBudget& error) {
          CHECK(error.limit_bytes == limit && error.needed_bytes > limit);
          ++refused;
        }
        CHECK(control.used_bytes() == 0 && control.peak_bytes() <= limit);
      }
      CHECK(refused > 20);
    }
  }
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("each allocation may fail", each_allocation_may_fail);
  check::run("a build may run out of budget anywhere", a_build_may_run_out_of_budget_anywhere);
}
