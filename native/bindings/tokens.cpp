// Token rows for Python.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/types.h"
#include "bindings.h"
#include "labels/holders.h"
#include "native_labels.h"
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
  module.def("unpack_distances", &unpack, nb::arg("ids").noconvert(), nb::arg("packed").noconvert(),
             nb::arg("size"), nb::arg("directed"), nb::arg("threads"));
}

}  // namespace dhilgt
