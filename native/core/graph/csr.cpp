#include "graph/csr.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/parallel.h"

namespace dhilgt {

namespace {

constexpr std::size_t kEdgeChunk = std::size_t{1} << 16;
constexpr std::size_t kRowChunk = 1024;

using Cursor = std::atomic<std::int64_t>;

// Post-increments. With a single thread no atomic instruction is needed, which is most of the cost.
std::int64_t increment(Cursor& cursor, bool single_thread) {
  if (!single_thread) return cursor.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t value = cursor.load(std::memory_order_relaxed);
  cursor.store(value + 1, std::memory_order_relaxed);
  return value;
}

// A scattered entry holds (target, is it a reversed edge) in one word: sorting a row then puts copies
// of an edge next to each other, those of the input before the reversed ones.
std::int32_t pack(std::int64_t target, bool reversed) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(target) << 1 | (reversed ? 1u : 0u));
}
std::uint32_t bits(std::int32_t entry) { return static_cast<std::uint32_t>(entry); }

// Sorts one row, moves its distinct targets to the front and returns their number.
std::int64_t clean_row(std::int32_t* row, std::int64_t length, std::uint64_t& duplicates,
                       std::uint64_t& reversed_added) {
  std::sort(row, row + length, [](std::int32_t a, std::int32_t b) { return bits(a) < bits(b); });
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < length;) {
    const std::uint32_t target = bits(row[i]) >> 1;
    std::uint64_t copies = 0;  // in the input, as opposed to reversed
    for (; i < length && bits(row[i]) >> 1 == target; ++i) copies += (bits(row[i]) & 1u) == 0;
    if (copies == 0) {
      ++reversed_added;
    } else {
      duplicates += copies - 1;
    }
    row[kept++] = static_cast<std::int32_t>(target);
  }
  return kept;
}

}  // namespace

void check_num_nodes(std::int64_t num_nodes) {
  if (num_nodes < 1 || num_nodes >= kNodeLimit) {
    throw std::invalid_argument("num_nodes is " + std::to_string(num_nodes) +
                                ", it must be at least 1 and below " + std::to_string(kNodeLimit));
  }
}

template <class Index>
std::size_t first_outside(const Index* values, std::size_t count, std::int64_t limit) {
  const auto bound = static_cast<std::uint64_t>(limit);
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::uint64_t>(static_cast<std::int64_t>(values[i])) >= bound) return i;
  }
  return count;
}

template <class Index>
CleanCsr build_csr(const Index* sources, const Index* targets, std::size_t num_edges,
                   std::int64_t num_nodes, bool directed, unsigned threads, Control& control) {
  check_num_nodes(num_nodes);
  const auto rows = static_cast<std::size_t>(num_nodes);
  if (num_edges < kEdgeChunk) threads = 1;
  const bool single_thread = threads <= 1;
  const std::unique_ptr<Cursor[]> cursor(new Cursor[rows]());

  std::atomic<std::uint64_t> self_loops{0};
  parallel_for(threads, num_edges, kEdgeChunk, control,
               [&](unsigned, std::size_t begin, std::size_t end) {
                 std::uint64_t loops = 0;
                 for (std::size_t i = begin; i < end; ++i) {
                   const auto u = static_cast<std::size_t>(sources[i]);
                   const auto v = static_cast<std::size_t>(targets[i]);
                   if (u == v) {
                     ++loops;
                     continue;
                   }
                   increment(cursor[u], single_thread);
                   if (!directed) increment(cursor[v], single_thread);
                 }
                 self_loops.fetch_add(loops, std::memory_order_relaxed);
               });

  CleanCsr out;
  out.self_loops = self_loops.load();
  out.offsets.resize(rows + 1);
  std::int64_t total = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t length = cursor[row].load(std::memory_order_relaxed);
    cursor[row].store(total, std::memory_order_relaxed);
    out.offsets[row] = total;
    total += length;
  }
  out.offsets[rows] = total;

  out.targets.resize(static_cast<std::size_t>(total));
  parallel_for(threads, num_edges, kEdgeChunk, control,
               [&](unsigned, std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) {
                   const auto u = static_cast<std::size_t>(sources[i]);
                   const auto v = static_cast<std::size_t>(targets[i]);
                   if (u == v) continue;
                   out.targets[increment(cursor[u], single_thread)] = pack(targets[i], false);
                   if (!directed) out.targets[increment(cursor[v], single_thread)] = pack(sources[i], true);
                 }
               });

  std::atomic<std::uint64_t> duplicates{0};
  std::atomic<std::uint64_t> reversed_added{0};
  parallel_for(threads, rows, kRowChunk, control,
               [&](unsigned, std::size_t begin, std::size_t end) {
                 std::uint64_t row_duplicates = 0;
                 std::uint64_t row_added = 0;
                 for (std::size_t row = begin; row < end; ++row) {
                   const std::int64_t first = out.offsets[row];
                   const std::int64_t length = out.offsets[row + 1] - first;
                   const std::int64_t kept =
                       clean_row(out.targets.data() + first, length, row_duplicates, row_added);
                   cursor[row].store(kept, std::memory_order_relaxed);
                 }
                 duplicates.fetch_add(row_duplicates, std::memory_order_relaxed);
                 reversed_added.fetch_add(row_added, std::memory_order_relaxed);
               });
  out.duplicates = duplicates.load();
  out.reversed_added = reversed_added.load();

  // Rows only move towards the front, so the gaps can be closed in place.
  std::int64_t kept = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (row % kEdgeChunk == 0) control.check();
    const std::int64_t first = out.offsets[row];
    const std::int64_t length = cursor[row].load(std::memory_order_relaxed);
    if (kept != first) {
      std::copy_n(out.targets.begin() + first, length, out.targets.begin() + kept);
    }
    out.offsets[row] = kept;
    kept += length;
  }
  out.offsets[rows] = kept;
  out.targets.resize(static_cast<std::size_t>(kept));
  if (out.targets.capacity() > out.targets.size() + out.targets.size() / 4) {
    out.targets.shrink_to_fit();
  }
  return out;
}

Csr transpose(const std::int64_t* offsets, const std::int32_t* targets, std::int64_t num_nodes,
              Control& control) {
  check_num_nodes(num_nodes);
  const auto rows = static_cast<std::size_t>(num_nodes);
  const std::int64_t num_edges = offsets[rows];
  Csr out;
  out.offsets.assign(rows + 1, 0);
  for (std::int64_t i = 0; i < num_edges; ++i) {
    ++out.offsets[static_cast<std::size_t>(targets[i]) + 1];
  }
  control.check();
  for (std::size_t row = 0; row < rows; ++row) out.offsets[row + 1] += out.offsets[row];
  std::vector<std::int64_t> cursor(out.offsets.begin(), out.offsets.end() - 1);
  out.targets.resize(static_cast<std::size_t>(num_edges));
  // Rows are visited in ascending order, so every row of the result is sorted.
  for (std::size_t row = 0; row < rows; ++row) {
    if (row % kEdgeChunk == 0) control.check();
    for (std::int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
      out.targets[cursor[targets[i]]++] = static_cast<std::int32_t>(row);
    }
  }
  return out;
}

template std::size_t first_outside(const std::int32_t*, std::size_t, std::int64_t);
template std::size_t first_outside(const std::int64_t*, std::size_t, std::int64_t);
template CleanCsr build_csr(const std::int32_t*, const std::int32_t*, std::size_t, std::int64_t,
                            bool, unsigned, Control&);
template CleanCsr build_csr(const std::int64_t*, const std::int64_t*, std::size_t, std::int64_t,
                            bool, unsigned, Control&);

}  // namespace dhilgt
