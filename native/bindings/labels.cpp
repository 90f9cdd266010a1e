// Hub labels for Python, in rank space; the Python package translates ranks to nodes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/types.h"
#include "bindings.h"
#include "graph/ranked_graph.h"
#include "labels/build.h"
#include "labels/holders.h"
#include "labels/pack.h"
#include "labels/query.h"
#include "labels/query_merge.h"
#include "native_labels.h"

namespace dhilgt {
namespace {

Algorithm algorithm_named(const std::string& name) {
  if (name == "auto") return Algorithm::automatic;
  if (name == "pll") return Algorithm::pll;
  if (name == "planes") return Algorithm::planes;
  if (name == "psl") return Algorithm::psl;
  throw std::invalid_argument("algorithm '" + name + "' is not one of auto, pll, planes, psl");
}

using Offsets = ArrayIn<std::int64_t>;
using Targets = ArrayIn<std::int32_t>;

CsrView checked_csr(const Offsets& offsets, const Targets& targets) {
  if (offsets.size() == 0) throw std::invalid_argument("offsets is empty");
  const std::size_t n = offsets.size() - 1;
  if (n >= 0x7FFFFFFF) throw std::invalid_argument("more than 2147483646 nodes");
  const std::int64_t* at = offsets.data();
  if (at[0] != 0 || at[n] != static_cast<std::int64_t>(targets.size())) {
    throw std::invalid_argument("offsets run from " + std::to_string(at[0]) + " to " + std::to_string(at[n]) +
                                "; they must run from 0 to the number of targets, " +
                                std::to_string(targets.size()));
  }
  for (std::size_t v = 0; v < n; ++v) {
    if (at[v] > at[v + 1]) throw std::invalid_argument("offsets descend at node " + std::to_string(v));
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets.data()[i] < 0 || static_cast<std::size_t>(targets.data()[i]) >= n) {
      throw std::invalid_argument("targets[" + std::to_string(i) + "] is not a node");
    }
  }
  return {static_cast<Node>(n), at, targets.data()};
}

void check_order(std::span<const Node> order, Node num_nodes) {
  if (order.size() != num_nodes) throw std::invalid_argument("order must list every node once");
  std::vector<bool> listed(num_nodes, false);
  for (const Node node : order) {
    if (listed[node]) {
      throw std::invalid_argument("order lists node " + std::to_string(node) + " twice");
    }
    listed[node] = true;
  }
}

void check_radius(Distance max_distance) {
  if (max_distance == 0) throw std::invalid_argument("max_distance must be 1 or more");
}

// A graph as validated CSR arrays, with its transpose when directed.
struct GraphArrays {
  CsrView out;
  std::optional<CsrView> in;

  GraphArrays(const Offsets& out_offsets, const Targets& out_targets,
              const std::optional<Offsets>& in_offsets, const std::optional<Targets>& in_targets)
      : out(checked_csr(out_offsets, out_targets)) {
    if (in_offsets.has_value() && in_targets.has_value()) {
      in = checked_csr(*in_offsets, *in_targets);
      if (in->num_nodes != out.num_nodes || in_targets->size() != out_targets.size()) {
        throw std::invalid_argument("the arrays of the two directions differ in their number of nodes or edges");
      }
    }
  }
  const CsrView* in_view() const { return in.has_value() ? &*in : nullptr; }
};

template <class T>
ArrayOut<T> numpy_copy(const T* values, std::size_t count) {
  return to_numpy(std::vector<T>(values, values + count));
}

nb::object label_arrays(const LabelView& label) {
  std::vector<std::uint32_t> hubs(label.hubs.begin(), label.hubs.end());
  std::vector<std::uint32_t> distances;
  distances.reserve(hubs.size());
  label.each_segment([&](Distance distance, std::span<const Node> run) {
    distances.insert(distances.end(), run.size(), distance);
  });
  return nb::make_tuple(to_numpy(std::move(hubs)), to_numpy(std::move(distances)));
}

nb::object build(const Offsets& out_offsets, const Targets& out_targets,
                 std::optional<Offsets> in_offsets, std::optional<Targets> in_targets,
                 std::optional<Nodes> order, const std::string& algorithm, std::uint32_t plane_hubs,
                 unsigned threads, std::uint64_t max_bytes, nb::object progress, std::uint32_t max_distance) {
  const GraphArrays arrays(out_offsets, out_targets, in_offsets, in_targets);
  const Node n = arrays.out.num_nodes;
  if (order.has_value()) check_order(checked_nodes(*order, n, "order"), n);
  check_radius(max_distance);
  const BuildOptions options{algorithm_named(algorithm), std::max(1u, threads), plane_hubs, max_distance};
  Control control(max_bytes);
  Buffer<Node> node_at(&control);
  Labels labels;
  run_polled(control, std::move(progress), [&] {
    if (order.has_value()) node_at.append(order->data(), order->size());
    else node_at = order_by_degree(arrays.out, arrays.in_view(), control);
    const RankedGraph graph = rank_graph(arrays.out, arrays.in_view(), node_at.view(), control);
    labels = build_labels(graph, options, control);
  });
  const std::uint64_t peak = control.peak_bytes();
  return nb::make_tuple(nb::cast(new NativeLabels(std::move(labels)), nb::rv_policy::take_ownership),
                        to_numpy(std::move(node_at)), peak);
}

// Exact label sizes of some nodes by distance, [node][distance], summed over both directions when
// directed.
nb::object probe_sizes(const Offsets& out_offsets, const Targets& out_targets,
                       std::optional<Offsets> in_offsets, std::optional<Targets> in_targets,
                       std::optional<Nodes> order, const Nodes& nodes, nb::object progress,
                       std::uint32_t max_distance) {
  const GraphArrays arrays(out_offsets, out_targets, in_offsets, in_targets);
  const Node n = arrays.out.num_nodes;
  if (order.has_value()) check_order(checked_nodes(*order, n, "order"), n);
  check_radius(max_distance);
  const std::span<const Node> chosen = checked_nodes(nodes, n, "nodes");
  Control control;
  std::vector<std::vector<std::uint64_t>> sizes(chosen.size());
  std::size_t width = 1;
  run_polled(control, std::move(progress), [&] {
    Buffer<Node> node_at(&control);
    if (order.has_value()) node_at.append(order->data(), order->size());
    else node_at = order_by_degree(arrays.out, arrays.in_view(), control);
    const RankedGraph graph = rank_graph(arrays.out, arrays.in_view(), node_at.view(), control);
    std::vector<Node> rank_of(n);
    for (Node rank = 0; rank < n; ++rank) rank_of[node_at[rank]] = rank;
    LabelSizeProbe probe(n, control);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Node rank = rank_of[chosen[i]];
      probe.count(graph.forward(), rank, max_distance, sizes[i], control);
      if (graph.directed) probe.count(graph.backward(), rank, max_distance, sizes[i], control);
      width = std::max(width, sizes[i].size());
    }
  });
  std::vector<std::uint64_t> table(chosen.size() * width);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::copy(sizes[i].begin(), sizes[i].end(), table.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return nb::cast(to_numpy(std::move(table)));
}

// The entries (node, hub, distance) of hubs [first, last), as ranks, by one bit-plane block.
nb::object plane_block(const Offsets& out_offsets, const Targets& out_targets,
                       std::optional<Offsets> in_offsets, std::optional<Targets> in_targets,
                       const Nodes& order, int side, std::uint32_t first, std::uint32_t last,
                       std::uint64_t max_bytes, nb::object progress, std::uint32_t max_distance) {
  const GraphArrays arrays(out_offsets, out_targets, in_offsets, in_targets);
  const Node n = arrays.out.num_nodes;
  check_order(checked_nodes(order, n, "order"), n);
  check_radius(max_distance);
  if (side != 0 && side != 1) throw std::invalid_argument("side must be 0 (in) or 1 (out)");
  if (first >= last || last > n || last - first > kPlaneHubs) {
    throw std::invalid_argument("hubs [" + std::to_string(first) + ", " + std::to_string(last) +
                                ") must be 1 to 512 ranks below " + std::to_string(n));
  }
  Control control(max_bytes);
  std::vector<std::uint32_t> nodes, hubs, distances;
  run_polled(control, std::move(progress), [&] {
    const RankedGraph graph =
        rank_graph(arrays.out, arrays.in_view(), {order.data(), order.size()}, control);
    PlaneWorker worker(n, control);
    const PlaneBlock block = worker.run(side == 0 ? graph.backward() : graph.forward(), first, last,
                                        max_distance, control);
    const std::size_t pieces = num_pieces(n);
    std::size_t item = 0;
    std::size_t at = 0;
    for (Distance distance = 1; distance <= block.num_levels; ++distance) {
      for (; item < block.marks[distance * pieces - 1].nodes_end; ++item) {
        for (std::uint16_t k = 0; k < block.counts[item]; ++k) {
          nodes.push_back(block.nodes[item]);
          hubs.push_back(first + block.local_hubs[at++]);
          distances.push_back(distance);
        }
      }
    }
  });
  return nb::make_tuple(to_numpy(std::move(nodes)), to_numpy(std::move(hubs)),
                        to_numpy(std::move(distances)));
}

NativeLabels* from_packed(bool directed, const std::vector<std::uint32_t>& bounds, nb::object arrays) {
  // arrays: (offsets, bytes) per side and part, one side when undirected
  if (bounds.size() < 2 || bounds.front() != 0 || !std::is_sorted(bounds.begin(), bounds.end())) {
    throw std::invalid_argument("bounds must ascend from 0 to the number of nodes");
  }
  const std::size_t num_parts = bounds.size() - 1;
  auto view = [&](std::size_t side) {
    std::vector<PackedPart> parts;
    for (std::size_t part = 0; part < num_parts; ++part) {
      const std::size_t at = 2 * (side * num_parts + part);
      const auto offsets = nb::cast<ArrayIn<std::uint64_t>>(arrays[at], false);
      const auto bytes = nb::cast<ArrayIn<std::uint8_t>>(arrays[at + 1], false);
      if (offsets.size() != std::size_t{bounds[part + 1]} - bounds[part] + 1) {
        throw std::invalid_argument("offsets must have one item more than there are nodes");
      }
      parts.push_back({bounds[part], {offsets.data(), offsets.size()}, {bytes.data(), bytes.size()}});
    }
    return PackedView{bounds.back(), std::move(parts)};
  };
  const PackedView in = view(0);
  const PackedView out = directed ? view(1) : in;
  return new NativeLabels(directed, in, out, std::move(arrays));
}

// The packed records of some ranks of mapped labels: (offsets, bytes).
nb::object packed_records(const NativeLabels& labels, const Nodes& ranks, int side) {
  if (!labels.packed()) throw std::invalid_argument("labels are in memory; their records are not packed");
  const PackedView& packed = labels.source(side).packed;
  const std::span<const Node> chosen = checked_nodes(ranks, labels.num_nodes(), "ranks");
  Control control;
  PackedLabels gathered;
  run_polled(control, nb::none(), [&] { gathered = gather_records(packed, chosen, control); });
  return nb::make_tuple(to_numpy(std::move(gathered.offsets)), to_numpy(std::move(gathered.bytes)));
}

// Decodes packed labels.
NativeLabels* unpack(const NativeLabels& labels, unsigned threads, std::uint64_t max_bytes) {
  if (!labels.packed()) throw std::invalid_argument("labels are in memory already");
  Control control(max_bytes);
  Labels decoded;
  decoded.directed = labels.directed();
  run_polled(control, nb::none(), [&] {
    decoded.in = unpack_labels(labels.source(0).packed, std::max(1u, threads), control);
    if (decoded.directed) decoded.out = unpack_labels(labels.source(1).packed, std::max(1u, threads), control);
  });
  return new NativeLabels(std::move(decoded));
}

nb::object pairs(NativeLabels& labels, const Nodes& sources, const Nodes& targets, bool want_hubs,
                 unsigned threads, nb::object progress) {
  const Node n = labels.num_nodes();
  const std::span<const Node> from = checked_nodes(sources, n, "sources");
  const std::span<const Node> to = checked_nodes(targets, n, "targets");
  if (from.size() != to.size()) throw std::invalid_argument("sources and targets differ in length");
  std::vector<Distance> distances(from.size());
  std::vector<Node> hubs(want_hubs ? from.size() : 0);
  Control control;
  control.total.store(from.size());
  run_polled(control, std::move(progress), [&] {
    answer_pairs(labels.out_labels(), labels.in_labels(), from, to, distances, hubs,
                 std::max(1u, threads), control);
  });
  return nb::make_tuple(to_numpy(std::move(distances)), to_numpy(std::move(hubs)));
}

// Distances by the textbook merge of two labels, for benchmarks and tests.
nb::object merged_pairs(const MergeIndex& index, Node num_nodes, const Nodes& left, const Nodes& right,
                        unsigned threads) {
  const std::span<const Node> from = checked_nodes(left, num_nodes, "left");
  const std::span<const Node> to = checked_nodes(right, num_nodes, "right");
  if (from.size() != to.size()) throw std::invalid_argument("left and right differ in length");
  std::vector<Distance> distances(from.size());
  Control control;
  run_polled(control, nb::none(), [&] {
    index.answer(from, to, distances, std::max(1u, threads), control);
  });
  return nb::cast(to_numpy(std::move(distances)));
}

struct NativeMergeIndex {
  explicit NativeMergeIndex(const NativeLabels& labels)
      : num_nodes(labels.num_nodes()), index(labels.in_memory(0)) {
    if (labels.directed()) throw std::invalid_argument("the merge index is for undirected graphs");
  }
  Node num_nodes;
  MergeIndex index;
};

nb::object matrix(NativeLabels& labels, const Nodes& nodes, unsigned threads, nb::object progress) {
  const std::span<const Node> ranks = checked_nodes(nodes, labels.num_nodes(), "nodes");
  std::vector<Distance> distances(ranks.size() * ranks.size());
  Control control;
  control.total.store(distances.size());
  run_polled(control, std::move(progress), [&] {
    answer_matrix(labels.out_labels(), labels.in_labels(), ranks, distances, std::max(1u, threads),
                  control);
  });
  return nb::cast(to_numpy(std::move(distances)));
}

nb::object flat_arrays(const LabelSet& set) {
  std::vector<std::int64_t> offsets(set.entry_offsets.begin(), set.entry_offsets.end());
  std::vector<std::uint32_t> distances(set.num_entries());
  for (Node v = 0; v < set.num_nodes(); ++v) {
    std::uint32_t* at = distances.data() + set.entry_offsets[v];
    set.of(v).each_segment([&](Distance distance, std::span<const Node> hubs) {
      at = std::fill_n(at, hubs.size(), distance);
    });
  }
  return nb::make_tuple(to_numpy(std::move(offsets)), numpy_copy(set.hubs.data(), set.hubs.size()),
                        to_numpy(std::move(distances)));
}

// Number of entries by distance.
nb::object histogram(const NativeLabels& labels) {
  std::vector<std::uint64_t> counts;
  for (int side = 0; side < (labels.directed() ? 2 : 1); ++side) {
    DecodedLabel scratch;
    for (Node v = 0; v < labels.num_nodes(); ++v) {
      labels.source(side).of(v, scratch).each_segment([&](Distance distance, std::span<const Node> hubs) {
        if (distance >= counts.size()) counts.resize(std::size_t{distance} + 1, 0);
        counts[distance] += hubs.size();
      });
    }
  }
  return nb::cast(to_numpy(std::move(counts)));
}

nb::object pack(const NativeLabels& labels, int side, unsigned threads) {
  const LabelSet& set = labels.in_memory(side);
  Control control;
  PackedLabels packed;
  run_polled(control, nb::none(), [&] { packed = pack_labels(set, std::max(1u, threads), control); });
  return nb::make_tuple(to_numpy(std::move(packed.offsets)), to_numpy(std::move(packed.bytes)));
}

std::uint64_t num_bytes(const NativeLabels& labels) {
  std::uint64_t bytes = 0;
  for (int side = 0; side < (labels.directed() ? 2 : 1); ++side) {
    const LabelSource& source = labels.source(side);
    if (source.in_memory != nullptr) bytes += source.in_memory->num_bytes();
    for (const PackedPart& part : source.packed.parts) bytes += part.bytes.size() + part.offsets.size_bytes();
  }
  return bytes;
}

std::uint64_t num_entries(const NativeLabels& labels) {
  std::uint64_t entries = 0;
  for (int side = 0; side < (labels.directed() ? 2 : 1); ++side) {
    entries += labels.in_memory(side).num_entries();
  }
  return entries;
}

Distance max_distance(const NativeLabels& labels) {
  return std::max(labels.in_memory(0).max_distance(), labels.in_memory(1).max_distance());
}

// The inverted labels, in the form of labels.
NativeLabels* holders(const NativeLabels& labels, unsigned threads, std::uint64_t max_bytes,
                      nb::object progress) {
  Labels inverted;
  inverted.directed = labels.directed();
  Control control(max_bytes);
  run_polled(control, std::move(progress), [&] {
    inverted.in = invert_labels(labels.in_memory(0), std::max(1u, threads), control);
    if (labels.directed()) inverted.out = invert_labels(labels.in_memory(1), std::max(1u, threads), control);
  });
  return new NativeLabels(std::move(inverted));
}

}  // namespace

void bind_labels(nb::module_& module) {
  module.attr("PLAN_HUBS") = kPlanHubs;
  module.attr("PLANE_HUBS") = kPlaneHubs;

  module.def("build_labels", &build, nb::arg("out_offsets").noconvert(),
             nb::arg("out_targets").noconvert(), nb::arg("in_offsets").noconvert().none(),
             nb::arg("in_targets").noconvert().none(), nb::arg("order").noconvert().none(),
             nb::arg("algorithm"), nb::arg("plane_hubs"), nb::arg("threads"), nb::arg("max_bytes"),
             nb::arg("progress").none(), nb::arg("max_distance") = kUnreachable);
  module.def("probe_label_sizes", &probe_sizes, nb::arg("out_offsets").noconvert(),
             nb::arg("out_targets").noconvert(), nb::arg("in_offsets").noconvert().none(),
             nb::arg("in_targets").noconvert().none(), nb::arg("order").noconvert().none(),
             nb::arg("nodes").noconvert(), nb::arg("progress").none(),
             nb::arg("max_distance") = kUnreachable);
  module.def("plane_block", &plane_block, nb::arg("out_offsets").noconvert(),
             nb::arg("out_targets").noconvert(), nb::arg("in_offsets").noconvert().none(),
             nb::arg("in_targets").noconvert().none(), nb::arg("order").noconvert(), nb::arg("side"),
             nb::arg("first"), nb::arg("last"), nb::arg("max_bytes"), nb::arg("progress").none(),
             nb::arg("max_distance") = kUnreachable);
  module.def("labels_from_packed",
             [](bool directed, std::uint32_t num_nodes, nb::object arrays) {
               return from_packed(directed, {0, num_nodes}, std::move(arrays));
             },
             nb::arg("directed"), nb::arg("num_nodes"), nb::arg("arrays"), nb::rv_policy::take_ownership);
  module.def("labels_from_parts", &from_packed, nb::arg("directed"), nb::arg("bounds"), nb::arg("arrays"),
             nb::rv_policy::take_ownership);

  nb::class_<NativeMergeIndex>(module, "MergeIndex")
      .def(nb::init<const NativeLabels&>(), nb::arg("labels"))
      .def("pairs",
           [](const NativeMergeIndex& self, const Nodes& left, const Nodes& right, unsigned threads) {
             return merged_pairs(self.index, self.num_nodes, left, right, threads);
           },
           nb::arg("left").noconvert(), nb::arg("right").noconvert(), nb::arg("threads"));

  nb::class_<NativeLabels>(module, "Labels")
      .def_prop_ro("num_nodes", &NativeLabels::num_nodes)
      .def_prop_ro("directed", &NativeLabels::directed)
      .def_prop_ro("packed", &NativeLabels::packed)
      .def_prop_ro("num_bytes", &num_bytes)
      .def_prop_ro("num_entries", &num_entries)
      .def_prop_ro("max_distance", &max_distance)
      .def("label",
           [](const NativeLabels& labels, std::uint32_t rank, int side) {
             if (rank >= labels.num_nodes()) throw nb::index_error("rank out of range");
             DecodedLabel scratch;
             return label_arrays(labels.source(side).of(rank, scratch));
           },
           nb::arg("rank"), nb::arg("side"))
      .def("ask",
           [](NativeLabels& labels, std::uint32_t from, std::uint32_t to) {
             if (from >= labels.num_nodes() || to >= labels.num_nodes()) {
               throw nb::index_error("rank out of range");
             }
             const Answer answer = labels.ask(from, to);
             return nb::make_tuple(answer.distance, answer.hub);
           },
           nb::arg("source"), nb::arg("target"))
      .def("pairs", &pairs, nb::arg("sources").noconvert(), nb::arg("targets").noconvert(),
           nb::arg("want_hubs"), nb::arg("threads"), nb::arg("progress").none())
      .def("matrix", &matrix, nb::arg("nodes").noconvert(), nb::arg("threads"),
           nb::arg("progress").none())
      .def("flat_arrays", [](const NativeLabels& labels, int side) { return flat_arrays(labels.in_memory(side)); },
           nb::arg("side"))
      .def("histogram", &histogram)
      .def("packed_records", &packed_records, nb::arg("ranks").noconvert(), nb::arg("side"))
      .def("pack", &pack, nb::arg("side"), nb::arg("threads"))
      .def("unpack", &unpack, nb::arg("threads"), nb::arg("max_bytes"), nb::rv_policy::take_ownership)
      .def("holders", &holders, nb::arg("threads"), nb::arg("max_bytes"), nb::arg("progress").none(),
           nb::rv_policy::take_ownership);
}

}  // namespace dhilgt
