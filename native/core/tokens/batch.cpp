#include "tokens/batch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "labels/fill.h"
#include "labels/holders.h"
#include "labels/records.h"
#include "tokens/kernel.h"
#include "tokens/numbers.h"

namespace dhilgt {

std::span<const std::uint8_t> PackedBatch::record(const PackedSide& side, std::size_t i) const {
  const Offset from = side.offsets[i];
  const Offset to = side.offsets[i + 1];
  if (from > to || to > side.bytes.size()) throw BadPacking(ranks[i], "offsets run outside the data");
  return side.bytes.subspan(from, to - from);
}

namespace {

// Decodes the lists that nodes are drawn from, one at a time: on a directed graph both sides joined.
class ListDecoder {
 public:
  explicit ListDecoder(const PackedBatch& packed) : packed_(packed) {}

  LabelView of(std::size_t i) {
    decode(packed_.in, i, list_);
    if (!packed_.directed) return list_.view();
    decode(packed_.out, i, other_);
    join_label(list_.view(), other_.view(), joined_);
    list_.hubs.clear();
    list_.segments.clear();
    for (const JoinedEntry& entry : joined_) {
      list_.hubs.push_back(entry.hub);
      const auto end = static_cast<Node>(list_.hubs.size());
      if (list_.segments.empty() || list_.segments.back().distance != entry.distance) {
        list_.segments.push_back({entry.distance, end});
      }
      list_.segments.back().end = end;
    }
    return list_.view();
  }

 private:
  void decode(const PackedSide& side, std::size_t i, DecodedLabel& out) const {
    decode_record(packed_.record(side, i), packed_.num_nodes, packed_.ranks[i], out);
  }

  const PackedBatch& packed_;
  DecodedLabel list_;
  DecodedLabel other_;
  std::vector<JoinedEntry> joined_;
};

// A label set with room for the labels of one side, row i being that of ranks[i].
LabelSet sized_side(const PackedBatch& packed, const PackedSide& side, unsigned threads, Control& control) {
  const auto count = static_cast<Node>(packed.ranks.size());
  LabelSet set(count, control);
  set.entry_offsets[0] = set.segment_offsets[0] = 0;
  parallel_for(threads, count, kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const RecordSize size = record_size(packed.record(side, i), packed.num_nodes, packed.ranks[i]);
      set.entry_offsets[i + 1] = size.entries;
      set.segment_offsets[i + 1] = size.segments;
    }
  });
  counts_to_offsets(set.entry_offsets);
  counts_to_offsets(set.segment_offsets);
  set.hubs.resize(set.entry_offsets[count]);
  set.segments.resize(set.segment_offsets[count]);
  return set;
}

// Decodes the labels of one side into their places; calls visit(hubs) for each.
template <class Visit>
void decode_side(const PackedBatch& packed, const PackedSide& side, LabelSet& set, unsigned threads,
                 Control& control, Visit&& visit) {
  parallel_for(threads, packed.ranks.size(), kPieceNodes, control, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Node rank = packed.ranks[i];
      RecordReader reader(packed.record(side, i), rank);
      Segment* const first = set.segments.data() + set.segment_offsets[i];
      Node* const label = set.hubs.data() + set.entry_offsets[i];
      Segment* segment = first;
      *segment++ = {0, 1};
      label[0] = rank;
      const Node entries = read_segments(reader, rank, packed.num_nodes, packed.num_nodes,
                                         [&](const Segment& next) { *segment++ = next; });
      read_hubs(reader, rank, packed.num_nodes, {first, segment}, label);
      if (reader.bytes_left() != 0) throw BadPacking(rank, "record has bytes left over");
      visit(std::span<const Node>(label, entries));
    }
  });
}

}  // namespace

void sample_members(const TokenShape& shape, const PackedBatch& labels, const PackedBatch& holders,
                    std::span<const Node> nodes, std::uint64_t copy, std::span<Node> members,
                    std::span<std::uint16_t> parts, unsigned threads, Control& control) {
  const TokenWeights weights(shape);
  parallel_for(threads, nodes.size(), 32, control, [&](unsigned, std::size_t begin, std::size_t end) {
    ListDecoder hub_lists(labels);
    ListDecoder holder_lists(holders);
    MemberSampler sampler(shape, weights);
    std::vector<Node> drawn;
    for (std::size_t i = begin; i < end; ++i) {
      const LabelView hub_list = hub_lists.of(i);
      const LabelView holder_list = holder_lists.of(i);
      const TokenParts row_parts = sampler.sample(labels.ranks[i], nodes[i], copy, hub_list, holder_list, drawn);
      parts[2 * i] = row_parts.hubs;
      parts[2 * i + 1] = row_parts.holders;
      Node* row = members.data() + i * shape.size;
      std::copy(drawn.begin(), drawn.end(), row);
      std::fill(row + drawn.size(), row + shape.size, kNoMember);
    }
    control.done.fetch_add(end - begin, std::memory_order_relaxed);
  });
}

Buffer<Node> number_members(Node num_nodes, std::span<Node> members, Control& control) {
  RankNumbers numbers(num_nodes, control);
  for (const Node member : members) {
    if (member != kNoMember) numbers.add(member);
  }
  numbers.finish();
  for (Node& member : members) {
    if (member != kNoMember) member = numbers[member];
  }
  Buffer<Node> distinct(&control, numbers.count());
  std::size_t at = 0;
  numbers.each([&](Node rank) { distinct[at++] = rank; });
  return distinct;
}

BatchLabels::BatchLabels(const PackedBatch& packed, bool bounded, unsigned threads, Control& control) {
  struct Side {
    const PackedSide& packed;
    LabelSet& set;
  };
  std::vector<Side> sides{{packed.in, in_}};
  if (packed.directed) sides.push_back({packed.out, out_});
  std::uint64_t label_bytes = 0;
  for (const Side& side : sides) {
    side.set = sized_side(packed, side.packed, threads, control);
    label_bytes += side.set.num_bytes();
  }
  // A table over all nodes is used as it is where it takes no more memory than the labels.
  if (packed.num_nodes * std::uint64_t{kByteColumns} <= label_bytes) {
    num_hubs_ = packed.num_nodes;
    for (const Side& side : sides) {
      decode_side(packed, side.packed, side.set, threads, control, [](std::span<const Node>) {});
    }
  } else {
    RankNumbers numbers(packed.num_nodes, control);
    for (const Side& side : sides) {
      decode_side(packed, side.packed, side.set, threads, control, [&](std::span<const Node> hubs) {
        for (const Node hub : hubs) numbers.add(hub);
      });
    }
    numbers.finish();
    num_hubs_ = numbers.count();
    for (const Side& side : sides) {
      Buffer<Node>& hubs = side.set.hubs;
      parallel_for(threads, hubs.size(), 1 << 16, control, [&](unsigned, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) hubs[i] = numbers[hubs[i]];
      });
    }
  }
  source_.in = &in_;
  source_.out = packed.directed ? &out_ : &in_;
  source_.directed = packed.directed;
  source_.bounded = bounded;
}

void BatchLabels::row_distances(std::size_t size, std::span<const Node> slots,
                                std::span<std::uint8_t> distances, unsigned threads, Control& control) const {
  const Distance longest = std::max(source_.in->max_distance(), source_.out->max_distance());
  const CellShape shape = cell_shape(size, longest);
  const std::size_t row_bytes = packed_pairs(size, source_.directed);
  std::vector<std::unique_ptr<TokenCells>> tables(std::max(1u, threads));  // of each worker
  parallel_for(threads, slots.size() / size, 32, control, [&](unsigned worker, std::size_t begin, std::size_t end) {
    std::unique_ptr<TokenCells>& cells = tables[worker];
    if (cells == nullptr) cells = std::make_unique<TokenCells>(num_hubs_, shape, control);
    RowDistances rows(source_, *cells);
    auto members_of = [&](std::size_t i) {
      const std::span<const Node> row = slots.subspan(i * size, size);
      return row.first(static_cast<std::size_t>(std::find(row.begin(), row.end(), kNoMember) - row.begin()));
    };
    for (std::size_t i = begin; i < end; ++i) {
      if (i + 1 < end) rows.prefetch(members_of(i + 1));
      rows.pack(members_of(i), distances.subspan(i * row_bytes, row_bytes));
    }
    control.done.fetch_add(end - begin, std::memory_order_relaxed);
  });
}

}  // namespace dhilgt
