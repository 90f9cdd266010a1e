// Token rows for Python.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/types.h"
#include "bindings.h"
#include "labels/holders.h"
#include "native_labels.h"
#include "tokens/batch.h"
#include "tokens/rows.h"

namespace dhilgt {
namespace {

// Owns the input of rows except the labels, which Python keeps alive.
class NativeTokens {
 public:
  NativeTokens(const NativeLabels& labels, const Nodes& order, unsigned threads,
               std::uint64_t max_bytes, nb::object progress, bool bounded)
      : control_(max_bytes) {
    const Node n = labels.num_nodes();
    const std::span<const Node> nodes = checked_nodes(order, n, "order");
    if (nodes.size() != n) throw std::invalid_argument("order must list every node once");
    node_at_.assign(nodes.begin(), nodes.end());
    const LabelSet& in = labels.in_memory(0);
    const LabelSet& out = labels.in_memory(1);
    run_polled(control_, std::move(progress), [&] {
      if (labels.directed()) joined_ = join_labels(in, out, threads, control_);
      holders_ = invert_labels(labels.directed() ? joined_ : in, threads, control_);
      factory_ = std::make_unique<TokenFactory>(
          TokenSource{&in, &out, labels.directed() ? &joined_ : &in, &holders_, node_at_, labels.directed(),
                      bounded},
          control_);
    });
  }
  NativeTokens(const NativeTokens&) = delete;
  NativeTokens& operator=(const NativeTokens&) = delete;

  TokenFactory& factory() { return *factory_; }
  std::uint64_t num_bytes() const { return joined_.num_bytes() + holders_.num_bytes(); }

 private:
  Control control_;  // declared first: everything below is charged to it
  std::vector<Node> node_at_;
  LabelSet joined_;
  LabelSet holders_;
  std::unique_ptr<TokenFactory> factory_;
};

TokenShape checked_shape(std::uint32_t size, std::uint32_t num_out, std::uint32_t num_in,
                         double out_exponent, double in_exponent, std::uint64_t seed, bool spill,
                         bool fill_neighbors) {
  if (size == 0 || size > 1024) throw std::invalid_argument("size must be 1 to 1024");
  if (num_out >= size || num_in >= size || num_out + num_in + 1 > size) {
    throw std::invalid_argument("1 + num_out + num_in must not exceed size");
  }
  if (!std::isfinite(out_exponent) || !std::isfinite(in_exponent) ||
      std::fabs(out_exponent) > 64 || std::fabs(in_exponent) > 64) {
    throw std::invalid_argument("exponents must lie between -64 and 64");
  }
  return {size, num_out, num_in, out_exponent, in_exponent, seed, spill, fill_neighbors};
}

nb::object rows(NativeTokens& tokens, const Nodes& ranks, std::uint32_t size, std::uint32_t num_out,
                std::uint32_t num_in, double out_exponent, double in_exponent, std::uint64_t seed,
                std::uint64_t copy, bool spill, bool fill_neighbors, bool with_distances,
                unsigned threads, nb::object progress) {
  const TokenShape shape = checked_shape(size, num_out, num_in, out_exponent, in_exponent, seed,
                                         spill, fill_neighbors);
  const TokenSource& source = tokens.factory().source();
  const std::span<const Node> egos = checked_nodes(ranks, source.in->num_nodes(), "ranks");
  const std::size_t row_bytes = with_distances ? packed_pairs(size, source.directed) : 0;
  Control control;
  Buffer<std::int32_t> ids(nullptr, egos.size() * size);
  Buffer<std::uint16_t> parts(nullptr, egos.size() * 2);
  Buffer<std::uint8_t> packed(nullptr, egos.size() * row_bytes);
  control.total.store(egos.size());
  run_polled(control, std::move(progress), [&] {
    tokens.factory().make_rows(shape, egos, copy, {ids.data(), ids.size()},
                               {parts.data(), parts.size()}, {packed.data(), packed.size()},
                               std::max(1u, threads), control);
  });
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(parts)),
                        to_numpy(std::move(packed)));
}

// arrays: (offsets, records) per side of the labels of `ranks`; one side when undirected.
PackedBatch packed_batch(std::uint32_t num_nodes, bool directed, const Nodes& ranks, const nb::tuple& arrays) {
  PackedBatch batch{num_nodes, directed, checked_nodes(ranks, num_nodes, "ranks"), {}, {}};
  if (arrays.size() != (directed ? 4 : 2)) {
    throw std::invalid_argument("offsets and records of every side are needed, " + std::to_string(arrays.size()) +
                                " arrays were given");
  }
  auto side = [&](std::size_t at) {
    const auto offsets = nb::cast<ArrayIn<std::uint64_t>>(arrays[at], false);
    const auto records = nb::cast<ArrayIn<std::uint8_t>>(arrays[at + 1], false);
    if (offsets.size() != ranks.size() + 1) {
      throw std::invalid_argument("offsets must have one item more than there are ranks");
    }
    return PackedSide{{offsets.data(), offsets.size()}, {records.data(), records.size()}};
  };
  batch.in = side(0);
  if (directed) batch.out = side(2);
  return batch;
}

nb::object draw_members(std::uint32_t num_nodes, bool directed, const Nodes& ranks, const Nodes& nodes,
                        const nb::tuple& labels, const nb::tuple& holders, std::uint32_t size,
                        std::uint32_t num_out, std::uint32_t num_in, double out_exponent, double in_exponent,
                        std::uint64_t seed, std::uint64_t copy, bool spill, bool fill_neighbors,
                        unsigned threads) {
  const TokenShape shape = checked_shape(size, num_out, num_in, out_exponent, in_exponent, seed,
                                         spill, fill_neighbors);
  const PackedBatch hub_lists = packed_batch(num_nodes, directed, ranks, labels);
  const PackedBatch holder_lists = packed_batch(num_nodes, directed, ranks, holders);
  const std::span<const Node> egos = checked_nodes(nodes, num_nodes, "nodes");
  if (egos.size() != ranks.size()) throw std::invalid_argument("ranks and nodes differ in length");
  Control control;
  Buffer<Node> members(nullptr, egos.size() * size);
  Buffer<std::uint16_t> parts(nullptr, egos.size() * 2);
  run_polled(control, nb::none(), [&] {
    sample_members(shape, hub_lists, holder_lists, egos, copy, {members.data(), members.size()},
                   {parts.data(), parts.size()}, std::max(1u, threads), control);
  });
  return nb::make_tuple(to_numpy(std::move(members)), to_numpy(std::move(parts)));
}

nb::object distinct_members(std::uint32_t num_nodes, const Nodes& members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members.data()[i] >= num_nodes && members.data()[i] != kNoMember) {
      throw std::invalid_argument("members[" + std::to_string(i) + "] is not a rank");
    }
  }
  Control control;
  Buffer<Node> slots(nullptr);
  slots.append(members.data(), members.size());
  Buffer<Node> distinct(nullptr);
  run_polled(control, nb::none(), [&] {
    distinct = number_members(num_nodes, {slots.data(), slots.size()}, control);
  });
  return nb::make_tuple(to_numpy(std::move(distinct)), to_numpy(std::move(slots)));
}

// The decoded labels of some ranks, for the distances inside any number of rows.
class DecodedRows {
 public:
  DecodedRows(std::uint32_t num_nodes, bool directed, bool bounded, const Nodes& ranks, const nb::tuple& labels,
              unsigned threads, std::uint64_t max_bytes)
      : control_(max_bytes), num_ranks_(ranks.size()), directed_(directed) {
    const PackedBatch packed = packed_batch(num_nodes, directed, ranks, labels);
    run_polled(control_, nb::none(), [&] {
      labels_ = std::make_unique<BatchLabels>(packed, bounded, std::max(1u, threads), control_);
    });
  }
  DecodedRows(const DecodedRows&) = delete;
  DecodedRows& operator=(const DecodedRows&) = delete;

  nb::object distances(std::uint32_t size, const Nodes& slots, unsigned threads) {
    if (size == 0 || slots.size() % size != 0) throw std::invalid_argument("slots are not rows of this size");
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots.data()[i] >= num_ranks_ && slots.data()[i] != kNoMember) {
        throw std::invalid_argument("slots[" + std::to_string(i) + "] is not a position in ranks");
      }
    }
    Buffer<std::uint8_t> found(nullptr, slots.size() / size * packed_pairs(size, directed_));
    control_.stop.store(false);  // an earlier call may have been interrupted
    run_polled(control_, nb::none(), [&] {
      labels_->row_distances(size, {slots.data(), slots.size()}, {found.data(), found.size()},
                             std::max(1u, threads), control_);
    });
    return nb::cast(to_numpy(std::move(found)));
  }

 private:
  Control control_;  // declared first: the labels are charged to it
  const std::size_t num_ranks_;
  const bool directed_;
  std::unique_ptr<BatchLabels> labels_;
};

nb::object unpack(const ArrayIn<std::int32_t>& ids, const ArrayIn<std::uint8_t>& packed,
                  std::uint32_t size, bool directed, unsigned threads) {
  if (size == 0 || ids.size() % size != 0 ||
      packed.size() != ids.size() / size * packed_pairs(size, directed)) {
    throw std::invalid_argument("ids and packed distances are not rows of this size");
  }
  Buffer<std::uint8_t> square(nullptr, ids.size() * size);
  Control control;
  run_polled(control, nb::none(), [&] {
    unpack_rows({ids.data(), ids.size()}, {packed.data(), packed.size()}, size, directed,
                {square.data(), square.size()}, std::max(1u, threads), control);
  });
  return nb::cast(to_numpy(std::move(square)));
}

}  // namespace

void bind_tokens(nb::module_& module) {
  nb::class_<NativeTokens>(module, "Tokens")
      .def(nb::init<const NativeLabels&, const Nodes&, unsigned, std::uint64_t, nb::object, bool>(),
           nb::keep_alive<1, 2>(), nb::arg("labels"), nb::arg("order").noconvert(), nb::arg("threads"),
           nb::arg("max_bytes"), nb::arg("progress").none(), nb::arg("bounded") = false)
      .def_prop_ro("num_bytes", &NativeTokens::num_bytes)
      .def("rows", &rows, nb::arg("ranks").noconvert(), nb::arg("size"), nb::arg("num_out"),
           nb::arg("num_in"), nb::arg("out_exponent"), nb::arg("in_exponent"), nb::arg("seed"),
           nb::arg("copy"), nb::arg("spill"), nb::arg("fill_neighbors"), nb::arg("with_distances"),
           nb::arg("threads"), nb::arg("progress").none());
  module.def("draw_members", &draw_members, nb::arg("num_nodes"), nb::arg("directed"),
             nb::arg("ranks").noconvert(), nb::arg("nodes").noconvert(), nb::arg("labels"), nb::arg("holders"),
             nb::arg("size"), nb::arg("num_out"), nb::arg("num_in"), nb::arg("out_exponent"),
             nb::arg("in_exponent"), nb::arg("seed"), nb::arg("copy"), nb::arg("spill"),
             nb::arg("fill_neighbors"), nb::arg("threads"));
  module.def("distinct_members", &distinct_members, nb::arg("num_nodes"), nb::arg("members").noconvert());
  nb::class_<DecodedRows>(module, "DecodedRows")
      .def(nb::init<std::uint32_t, bool, bool, const Nodes&, const nb::tuple&, unsigned, std::uint64_t>(),
           nb::arg("num_nodes"), nb::arg("directed"), nb::arg("bounded"), nb::arg("ranks").noconvert(),
           nb::arg("labels"), nb::arg("threads"), nb::arg("max_bytes"))
      .def("distances", &DecodedRows::distances, nb::arg("size"), nb::arg("slots").noconvert(),
           nb::arg("threads"));
  module.def("unpack_distances", &unpack, nb::arg("ids").noconvert(), nb::arg("packed").noconvert(),
             nb::arg("size"), nb::arg("directed"), nb::arg("threads"));
}

}  // namespace dhilgt
