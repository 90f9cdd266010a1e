#include "tokens/rows.h"

#include <algorithm>
#include <memory>

#include "base/parallel.h"
#include "base/simd.h"
#include "tokens/kernel.h"

namespace dhilgt {

#if defined(__x86_64__)
namespace avx512 {
void token_member(const TokenLabel&, std::uint32_t, TokenTable&, std::uint8_t*);
void token_clear(TokenTable&);
}
namespace avx2 {
void token_member(const TokenLabel&, std::uint32_t, TokenTable&, std::uint8_t*);
void token_clear(TokenTable&);
}
#endif
namespace portable {
void token_member(const TokenLabel&, std::uint32_t, TokenTable&, std::uint8_t*);
void token_clear(TokenTable&);
}

TokenKernel token_kernel() {
#if defined(__x86_64__)
  switch (simd_level()) {
    case Simd::avx512: return {avx512::token_member, avx512::token_clear};
    case Simd::avx2: return {avx2::token_member, avx2::token_clear};
    default: break;
  }
#endif
  return {portable::token_member, portable::token_clear};
}

namespace {

TokenLabel as_pointers(const LabelView& label) {
  return {label.hubs.data(), label.segments.data(), label.segments.size()};
}

constexpr std::uint32_t kUnsetWord = 0x40000000u;  // the sum of two still fits

}  // namespace

TokenCells::TokenCells(Node num_nodes, std::size_t row_width, bool use_bytes, Control& control)
    : width(row_width),
      narrow(use_bytes),
      bytes(control, use_bytes ? num_nodes * row_width : 0),
      words(control, use_bytes ? 0 : num_nodes * row_width) {
  std::fill_n(bytes.data(), use_bytes ? num_nodes * row_width : 0, kUnsetCell);
  std::fill_n(words.data(), use_bytes ? 0 : num_nodes * row_width, kUnsetWord);
}

TokenMaker::TokenMaker(const TokenSource& source, const TokenShape& shape,
                       const DistanceWeights& out_weights, const DistanceWeights& in_weights,
                       TokenCells* cells)
    : source_(source),
      shape_(shape),
      out_weights_(out_weights),
      in_weights_(in_weights),
      cells_(cells) {}

TokenMaker::Parts TokenMaker::sample(Node rank, std::uint64_t copy, std::vector<Node>& members) {
  KeyedRandom random(shape_.seed, copy, source_.node_at[rank]);
  const LabelView hubs = source_.hubs->of(rank);
  const LabelView holders = source_.holders->of(rank);
  std::size_t out_quota = shape_.num_out;
  std::size_t in_quota = shape_.num_in;
  if (shape_.spill) {
    const std::size_t spare_out = out_quota - std::min(out_quota, hubs.hubs.size() - 1);
    const std::size_t spare_in = in_quota - std::min(in_quota, holders.hubs.size() - 1);
    out_quota += spare_in;
    in_quota += spare_out;
  }
  members.assign(1, rank);
  auto draw = [&](const LabelView& label, const DistanceWeights& weights, std::size_t quota) {
    positions_.clear();
    sampler_.draw(label, weights, quota, random, positions_);
    for (const Node position : positions_) members.push_back(label.hubs[position]);
    return static_cast<std::uint16_t>(positions_.size());
  };
  Parts parts{};
  parts.hubs = draw(hubs, out_weights_, out_quota);
  parts.holders = draw(holders, in_weights_, in_quota);
  if (shape_.fill_neighbors) fill_with_neighbors(rank, random, members);
  return parts;
}

// Neighbours are the label entries at distance 1: the better ranked are hubs, the worse ranked holders.
// They are drawn in random order, and those already in the row are skipped: at most `size` draws are
// skipped, so the cost does not depend on the number of neighbours.
void TokenMaker::fill_with_neighbors(Node rank, KeyedRandom& random, std::vector<Node>& members) {
  auto neighbors = [rank](const LabelSet& set) {
    const LabelView label = set.of(rank);
    const bool any = label.segments.size() > 1 && label.segments[1].distance == 1;
    return label.hubs.subspan(1, any ? label.segments[1].end - 1 : 0);
  };
  const std::span<const Node> better = neighbors(*source_.hubs);
  const std::span<const Node> worse = neighbors(*source_.holders);
  neighbor_draw_.reset(better.size() + worse.size());
  while (members.size() < shape_.size && neighbor_draw_.left() > 0) {
    const std::size_t at = neighbor_draw_.next(random);
    const Node drawn = at < better.size() ? better[at] : worse[at - better.size()];
    if (std::find(members.begin(), members.end(), drawn) == members.end()) members.push_back(drawn);
  }
}

void TokenMaker::prefetch(std::span<const Node> members) const {
  for (const Node member : members) {
    const LabelView label = source_.in->of(member);
    __builtin_prefetch(label.segments.data());
    const char* line = reinterpret_cast<const char*>(label.hubs.data());
    const std::size_t bytes = std::min<std::size_t>(label.hubs.size_bytes(), 512);
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(line + i);
  }
}

void TokenMaker::distances(std::span<const Node> members, std::span<std::uint8_t> packed) {
  std::fill(packed.begin(), packed.end(), kUnreachableByte);
  if (cells_->narrow) byte_distances(members, packed);
  else word_distances(members, packed);
}

void TokenMaker::byte_distances(std::span<const Node> members, std::span<std::uint8_t> packed) {
  const auto [pass, clear] = token_kernel();
  std::size_t max_touched = 1;  // one extra: the kernel writes before it tests
  for (const Node member : members) max_touched += source_.in->of(member).hubs.size();
  if (touched_.size() < max_touched) touched_.resize(max_touched);
  TokenTable table{cells_->bytes.data(), cells_->width, touched_.data(), 0};
  const std::uint8_t no_hub = source_.no_hub_byte();
  auto store = [no_hub](const std::uint8_t* row, std::size_t count, std::uint8_t* out) {
    for (std::size_t j = 0; j < count; ++j) out[j] = row[j] >= kUnsetCell ? no_hub : row[j];
  };
  alignas(64) std::uint8_t row[kByteColumns];
  const auto count = static_cast<std::uint32_t>(members.size());
  if (!source_.directed) {
    for (std::uint32_t i = 0; i < count; ++i) {
      pass(as_pointers(source_.in->of(members[i])), i, table, row);
      store(row, i, packed.data() + std::size_t{i} * (i - 1) / 2);
    }
  } else {
    // The table holds the in-labels, so the out-label of i gives the distances from i to every member.
    const std::size_t half = packed.size() / 2;
    for (std::uint32_t j = 0; j < count; ++j) pass(as_pointers(source_.in->of(members[j])), j, table, nullptr);
    for (std::uint32_t i = 0; i < count; ++i) {
      pass(as_pointers(source_.out->of(members[i])), kNoColumn, table, row);
      for (std::uint32_t j = 0; j < count; ++j) {
        const std::uint8_t distance = row[j] >= kUnsetCell ? no_hub : row[j];
        if (j < i) packed[half + std::size_t{i} * (i - 1) / 2 + j] = distance;
        if (j > i) packed[std::size_t{j} * (j - 1) / 2 + i] = distance;
      }
    }
  }
  clear(table);
}

// For long distances or large rows: the same with four bytes per cell, without SIMD kernels.
void TokenMaker::word_distances(std::span<const Node> members, std::span<std::uint8_t> packed) {
  const std::size_t width = cells_->width;
  std::vector<std::uint32_t> row(width);
  auto each_entry = [&](const LabelView& label, auto&& visit) {
    label.each_segment([&](Distance distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) visit(cells_->words.data() + std::size_t{hub} * width, distance);
    });
  };
  auto set_column = [&](const LabelView& label, std::size_t column) {
    each_entry(label, [&](std::uint32_t* cells, Distance distance) { cells[column] = distance; });
  };
  auto read_row = [&](const LabelView& label) {
    std::fill(row.begin(), row.end(), kUnsetWord);
    each_entry(label, [&](const std::uint32_t* cells, Distance distance) {
      for (std::size_t j = 0; j < width; ++j) row[j] = std::min(row[j], cells[j] + distance);
    });
  };
  auto as_byte = [no_hub = source_.no_hub_byte()](std::uint32_t distance) {
    return distance >= kUnsetWord ? no_hub
                                  : static_cast<std::uint8_t>(std::min<std::uint32_t>(distance, kFarByte));
  };
  const std::size_t half = packed.size() / 2;
  for (std::size_t j = 0; j < members.size(); ++j) set_column(source_.in->of(members[j]), j);
  for (std::size_t i = 0; i < members.size(); ++i) {
    read_row(source_.out->of(members[i]));
    for (std::size_t j = 0; j < members.size(); ++j) {
      if (j > i) packed[j * (j - 1) / 2 + i] = as_byte(row[j]);
      if (j < i && source_.directed) packed[half + i * (i - 1) / 2 + j] = as_byte(row[j]);
    }
  }
  for (const Node member : members) {
    each_entry(source_.in->of(member),
               [&](std::uint32_t* cells, Distance) { std::fill_n(cells, width, kUnsetWord); });
  }
}

TokenFactory::TokenFactory(const TokenSource& source, Control& control)
    : source_(source),
      max_distance_(std::max(source.in->max_distance(), source.out->max_distance())),
      cells_control_(control) {}

std::unique_ptr<TokenCells> TokenFactory::take_cells(std::size_t width, bool narrow) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    for (std::unique_ptr<TokenCells>& cells : spare_) {
      if (cells->width == width && cells->narrow == narrow) {
        std::unique_ptr<TokenCells> taken = std::move(cells);
        cells = std::move(spare_.back());
        spare_.pop_back();
        return taken;
      }
    }
  }
  return std::make_unique<TokenCells>(source_.in->num_nodes(), width, narrow, cells_control_);
}

void TokenFactory::return_cells(std::unique_ptr<TokenCells> cells) {
  const std::lock_guard<std::mutex> guard(lock_);
  spare_.push_back(std::move(cells));
}

void TokenFactory::make_rows(const TokenShape& shape, std::span<const Node> ranks, std::uint64_t copy,
                             std::span<std::int32_t> ids, std::span<std::uint16_t> parts,
                             std::span<std::uint8_t> packed, unsigned threads, Control& control) {
  const bool narrow = shape.size <= kByteColumns && max_distance_ <= kMaxByteDistance;
  const std::size_t width = !narrow ? shape.size : shape.size <= 32 ? 32 : 64;
  const std::size_t row_bytes = packed_pairs(shape.size, source_.directed);
  const DistanceWeights out_weights(shape.out_exponent);
  const DistanceWeights in_weights(shape.in_exponent);
  const bool with_distances = !packed.empty();
  parallel_for(threads, ranks.size(), 32, control, [&](unsigned, std::size_t begin, std::size_t end) {
    // Tables are returned only after a whole chunk: after an exception some cells may still be set.
    std::unique_ptr<TokenCells> cells = with_distances ? take_cells(width, narrow) : nullptr;
    TokenMaker maker(source_, shape, out_weights, in_weights, cells.get());
    std::vector<Node> members;
    std::vector<Node> next;
    TokenMaker::Parts next_parts = maker.sample(ranks[begin], copy, next);
    for (std::size_t i = begin; i < end; ++i) {
      members.swap(next);
      parts[2 * i] = next_parts.hubs;
      parts[2 * i + 1] = next_parts.holders;
      if (i + 1 < end) {  // drawn one row ahead, so that its labels can be prefetched
        next_parts = maker.sample(ranks[i + 1], copy, next);
        if (with_distances) maker.prefetch(next);
      }
      std::int32_t* row = ids.data() + i * shape.size;
      for (std::size_t j = 0; j < members.size(); ++j) {
        row[j] = static_cast<std::int32_t>(source_.node_at[members[j]]);
      }
      std::fill(row + members.size(), row + shape.size, -1);
      if (with_distances) maker.distances(members, packed.subspan(i * row_bytes, row_bytes));
    }
    if (with_distances) return_cells(std::move(cells));
    control.done.fetch_add(end - begin, std::memory_order_relaxed);
  });
}

void unpack_rows(std::span<const std::int32_t> ids, std::span<const std::uint8_t> packed,
                 std::size_t size, bool directed, std::span<std::uint8_t> square, unsigned threads,
                 Control& control) {
  const std::size_t half = packed_pairs(size, false);
  const std::size_t row_bytes = packed_pairs(size, directed);
  parallel_for(threads, ids.size() / size, 256, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::uint8_t* to_later = packed.data() + r * row_bytes;
      const std::uint8_t* to_earlier = directed ? to_later + half : to_later;
      std::uint8_t* out = square.data() + r * size * size;
      for (std::size_t i = 0; i < size; ++i) {
        out[i * size + i] = ids[r * size + i] < 0 ? kUnreachableByte : 0;
        for (std::size_t j = 0; j < i; ++j) {
          out[j * size + i] = *to_later++;
          out[i * size + j] = *to_earlier++;
        }
      }
    }
  });
}

}  // namespace dhilgt
