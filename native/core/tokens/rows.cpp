#include "tokens/rows.h"

#include <algorithm>
#include <memory>
#include <optional>

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

CellShape cell_shape(std::size_t size, Distance max_distance) {
  const bool narrow = size <= kByteColumns && max_distance <= kMaxByteDistance;
  return {!narrow ? size : size <= 32 ? 32 : 64, narrow};
}

TokenCells::TokenCells(std::size_t num_hubs, CellShape cell_shape, Control& control)
    : shape(cell_shape),
      bytes(control, shape.narrow ? num_hubs * shape.width : 0),
      words(control, shape.narrow ? 0 : num_hubs * shape.width) {
  std::fill_n(bytes.data(), shape.narrow ? num_hubs * shape.width : 0, kUnsetCell);
  std::fill_n(words.data(), shape.narrow ? 0 : num_hubs * shape.width, kUnsetWord);
}

void RowDistances::prefetch(std::span<const Node> members) const {
  for (const Node member : members) {
    const LabelView label = source_.in->of(member);
    __builtin_prefetch(label.segments.data());
    const char* line = reinterpret_cast<const char*>(label.hubs.data());
    const std::size_t bytes = std::min<std::size_t>(label.hubs.size_bytes(), 512);
    for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(line + i);
  }
}

void RowDistances::pack(std::span<const Node> members, std::span<std::uint8_t> packed) {
  std::fill(packed.begin(), packed.end(), kUnreachableByte);
  if (cells_.shape.narrow) byte_distances(members, packed);
  else word_distances(members, packed);
}

void RowDistances::byte_distances(std::span<const Node> members, std::span<std::uint8_t> packed) {
  const auto [pass, clear] = token_kernel();
  std::size_t max_touched = 1;  // one extra: the kernel writes before it tests
  for (const Node member : members) max_touched += source_.in->of(member).hubs.size();
  if (touched_.size() < max_touched) touched_.resize(max_touched);
  TokenTable table{cells_.bytes.data(), cells_.shape.width, touched_.data(), 0};
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
void RowDistances::word_distances(std::span<const Node> members, std::span<std::uint8_t> packed) {
  const std::size_t width = cells_.shape.width;
  std::vector<std::uint32_t> row(width);
  auto each_entry = [&](const LabelView& label, auto&& visit) {
    label.each_segment([&](Distance distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) visit(cells_.words.data() + std::size_t{hub} * width, distance);
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

std::unique_ptr<TokenCells> TokenFactory::take_cells(CellShape shape) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    for (std::unique_ptr<TokenCells>& cells : spare_) {
      if (cells->shape == shape) {
        std::unique_ptr<TokenCells> taken = std::move(cells);
        cells = std::move(spare_.back());
        spare_.pop_back();
        return taken;
      }
    }
  }
  return std::make_unique<TokenCells>(source_.in->num_nodes(), shape, cells_control_);
}

void TokenFactory::return_cells(std::unique_ptr<TokenCells> cells) {
  const std::lock_guard<std::mutex> guard(lock_);
  spare_.push_back(std::move(cells));
}

void TokenFactory::make_rows(const TokenShape& shape, std::span<const Node> ranks, std::uint64_t copy,
                             std::span<std::int32_t> ids, std::span<std::uint16_t> parts,
                             std::span<std::uint8_t> packed, unsigned threads, Control& control) {
  const std::size_t row_bytes = packed_pairs(shape.size, source_.directed);
  const TokenWeights weights(shape);
  const bool with_distances = !packed.empty();
  parallel_for(threads, ranks.size(), 32, control, [&](unsigned, std::size_t begin, std::size_t end) {
    // Tables are returned only after a whole chunk: after an exception some cells may still be set.
    std::unique_ptr<TokenCells> cells;
    std::optional<RowDistances> distances;
    if (with_distances) {
      cells = take_cells(cell_shape(shape.size, max_distance_));
      distances.emplace(source_, *cells);
    }
    MemberSampler sampler(shape, weights);
    auto sample = [&](Node rank, std::vector<Node>& members) {
      return sampler.sample(rank, source_.node_at[rank], copy, source_.hubs->of(rank), source_.holders->of(rank),
                            members);
    };
    std::vector<Node> members;
    std::vector<Node> next;
    TokenParts next_parts = sample(ranks[begin], next);
    for (std::size_t i = begin; i < end; ++i) {
      members.swap(next);
      parts[2 * i] = next_parts.hubs;
      parts[2 * i + 1] = next_parts.holders;
      if (i + 1 < end) {  // drawn one row ahead, so that its labels can be prefetched
        next_parts = sample(ranks[i + 1], next);
        if (with_distances) distances->prefetch(next);
      }
      std::int32_t* row = ids.data() + i * shape.size;
      for (std::size_t j = 0; j < members.size(); ++j) {
        row[j] = static_cast<std::int32_t>(source_.node_at[members[j]]);
      }
      std::fill(row + members.size(), row + shape.size, -1);
      if (with_distances) distances->pack(members, packed.subspan(i * row_bytes, row_bytes));
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
