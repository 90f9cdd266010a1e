#include "graph/ids.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <utility>

#include "base/parallel.h"
#include "graph/csr.h"

namespace dhilgt {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

// Ranks of ids whose range is not much larger than the edge list: one bit per possible id, and the
// number of ids before each word of 64 bits.
class BitRank {
 public:
  BitRank(std::int64_t low, std::uint64_t range)
      : low_(static_cast<std::uint64_t>(low)),
        words_(static_cast<std::size_t>((range + 63) / 64)),
        bits_(new std::atomic<std::uint64_t>[words_]()) {}

  void add(std::int64_t id) {
    const std::uint64_t place = static_cast<std::uint64_t>(id) - low_;
    const std::uint64_t bit = std::uint64_t{1} << (place & 63);
    std::atomic<std::uint64_t>& word = bits_[static_cast<std::size_t>(place >> 6)];
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
    word.fetch_or(bit, std::memory_order_relaxed);
  }

  std::vector<std::int64_t> finish() {
    before_.resize(words_);
    std::uint64_t count = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      before_[w] = static_cast<std::uint32_t>(count);
      count += static_cast<std::uint64_t>(std::popcount(bits_[w].load(std::memory_order_relaxed)));
    }
    check_num_nodes(static_cast<std::int64_t>(count));
    std::vector<std::int64_t> ids;
    ids.reserve(static_cast<std::size_t>(count));
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t left = bits_[w].load(std::memory_order_relaxed);
      for (; left != 0; left &= left - 1) {
        const std::uint64_t place = w * 64 + static_cast<std::uint64_t>(std::countr_zero(left));
        ids.push_back(static_cast<std::int64_t>(low_ + place));
      }
    }
    return ids;
  }

  std::int32_t rank(std::int64_t id) const {
    const std::uint64_t place = static_cast<std::uint64_t>(id) - low_;
    const auto w = static_cast<std::size_t>(place >> 6);
    const std::uint64_t below = (std::uint64_t{1} << (place & 63)) - 1;
    return static_cast<std::int32_t>(
        before_[w] +
        static_cast<unsigned>(std::popcount(bits_[w].load(std::memory_order_relaxed) & below)));
  }

 private:
  std::uint64_t low_;
  std::size_t words_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> bits_;
  std::vector<std::uint32_t> before_;
};

// Ranks of any 64-bit ids: a hash table with open addressing, at most half full.
class HashRank {
 public:
  HashRank() : slots_(1024, Slot{0, kEmpty}) {}

  void add(std::int64_t id) {
    Slot& slot = slots_[find(id)];
    if (slot.rank != kEmpty) return;
    slot = Slot{id, 0};
    if (++count_ * 2 > slots_.size()) grow();
  }

  std::vector<std::int64_t> finish() {
    check_num_nodes(static_cast<std::int64_t>(count_));
    std::vector<std::int64_t> ids;
    ids.reserve(count_);
    for (const Slot& slot : slots_) {
      if (slot.rank != kEmpty) ids.push_back(slot.id);
    }
    std::sort(ids.begin(), ids.end());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      slots_[find(ids[i])].rank = static_cast<std::int32_t>(i);
    }
    return ids;
  }

  std::int32_t rank(std::int64_t id) const { return slots_[find(id)].rank; }

 private:
  static constexpr std::int32_t kEmpty = -1;
  struct Slot {
    std::int64_t id;
    std::int32_t rank;
  };

  std::size_t find(std::int64_t id) const {
    std::uint64_t h = static_cast<std::uint64_t>(id);
    h = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(h) & mask;
    while (slots_[at].rank != kEmpty && slots_[at].id != id) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{0, kEmpty});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.rank != kEmpty) slots_[find(slot.id)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

template <class Rank>
void map_all(const std::int64_t* ids, std::vector<std::int32_t>& out, std::size_t count,
             const Rank& rank, unsigned threads, const Control& control) {
  out.resize(count);
  parallel_for(threads, count, kChunk, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = rank.rank(ids[i]);
  });
}

}  // namespace

CompactIds compact_ids(const std::int64_t* sources, const std::int64_t* targets,
                       std::size_t num_edges, unsigned threads, Control& control) {
  CompactIds out;
  if (num_edges == 0) return out;
  std::int64_t low = sources[0];
  std::int64_t high = low;
  for (const std::int64_t* side : {sources, targets}) {
    const auto [lowest, highest] = std::minmax_element(side, side + num_edges);
    low = std::min(low, *lowest);
    high = std::max(high, *highest);
  }
  control.check();
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const bool narrow = span < std::max<std::uint64_t>(std::uint64_t{1} << 20, 64 * num_edges);
  if (narrow) {
    BitRank rank(low, span + 1);
    for (const std::int64_t* side : {sources, targets}) {
      parallel_for(threads, num_edges, kChunk, control,
                   [&](unsigned, std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i) rank.add(side[i]);
                   });
    }
    out.ids = rank.finish();
    map_all(sources, out.sources, num_edges, rank, threads, control);
    map_all(targets, out.targets, num_edges, rank, threads, control);
  } else {
    HashRank rank;
    for (std::size_t i = 0; i < num_edges; ++i) {
      if (i % kChunk == 0) control.check();
      rank.add(sources[i]);
      rank.add(targets[i]);
    }
    out.ids = rank.finish();
    map_all(sources, out.sources, num_edges, rank, threads, control);
    map_all(targets, out.targets, num_edges, rank, threads, control);
  }
  return out;
}

}  // namespace dhilgt
