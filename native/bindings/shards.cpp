// Units of a sharded build for Python, in rank space: ranges of hubs, ranges of nodes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/types.h"
#include "bindings.h"
#include "labels/planes.h"
#include "labels/rest.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

using Starts = ArrayIn<std::uint64_t>;
using Ranks = ArrayIn<std::uint32_t>;
using Bytes = ArrayIn<std::uint8_t>;
using Bounds = std::vector<std::uint32_t>;

// A mapped ranked graph; it may be damaged.
ArcsView checked_arcs(const Starts& offsets, const Ranks& targets) {
  if (offsets.size() < 2) throw std::invalid_argument("the ranked graph has no nodes");
  const std::size_t n = offsets.size() - 1;
  if (n >= 0x7FFFFFFF) throw std::invalid_argument("more than 2147483646 nodes");
  const std::uint64_t* at = offsets.data();
  if (at[0] != 0 || at[n] + kReadAhead != targets.size()) {
    throw std::invalid_argument("offsets of the ranked graph do not fit its targets");
  }
  for (std::size_t v = 0; v < n; ++v) {
    if (at[v] > at[v + 1]) throw std::invalid_argument("offsets descend at rank " + std::to_string(v));
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets.data()[i] >= n) throw std::invalid_argument("target " + std::to_string(i) + " is not a rank");
  }
  return {at, targets.data()};
}

void check_bounds(const Bounds& bounds) {
  if (bounds.size() < 2 || bounds.front() != 0 || !std::is_sorted(bounds.begin(), bounds.end())) {
    throw std::invalid_argument("bounds must ascend from 0 to the number of nodes");
  }
}

// The rows of a table: (offsets in groups, groups) for each range of nodes.
template <class Word>
using TableParts = std::vector<std::tuple<Starts, ArrayIn<Word>>>;

// All hubs of a table must be below num_hubs: they are places in an array.
template <class Word>
void check_part(const Starts& starts, const ArrayIn<Word>& words, std::size_t num_nodes, std::uint32_t num_hubs) {
  if (starts.size() != num_nodes + 1 || starts.data()[0] != 0 ||
      starts.data()[num_nodes] * kGroupWords != words.size()) {
    throw std::invalid_argument("the table does not fit the nodes");
  }
  for (std::size_t v = 0; v < num_nodes; ++v) {
    if (starts.data()[v] > starts.data()[v + 1]) {
      throw std::invalid_argument("a part of the table descends at its node " + std::to_string(v));
    }
  }
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < words.size(); i += kGroupWords) {
    if (words.data()[i] == 0) throw std::invalid_argument("the table has an entry without a distance");
    for (std::size_t k = 1; k < kGroupWords; ++k) largest = std::max<std::uint32_t>(largest, words.data()[i + k]);
  }
  if (words.size() > 0 && largest >= num_hubs) throw std::invalid_argument("the table names a hub it has not");
}

template <class Word>
TopView<Word> checked_top(const TableParts<Word>& parts, const Bounds& bounds, std::uint32_t num_hubs) {
  if (parts.size() != bounds.size() - 1) throw std::invalid_argument("the table does not fit the bounds");
  std::vector<TopPart<Word>> rows;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [starts, words] = parts[i];
    check_part<Word>(starts, words, bounds[i + 1] - bounds[i], num_hubs);
    rows.push_back({bounds[i], {starts.data(), starts.size()}, {words.data(), words.size()}});
  }
  return {std::move(rows), bounds.back()};
}

// (number of hubs, longest distance, near rows, far rows); near rows are left out if they are the far ones
template <class Word>
using Table = std::tuple<std::uint32_t, std::uint32_t, std::optional<TableParts<Word>>, TableParts<Word>>;

// A table of the hubs before rank `first`, or no table.
template <class Word>
TopTable<Word> checked_table(const std::optional<Table<Word>>& table, const Bounds& bounds, std::uint32_t first) {
  if (!table.has_value()) return {};
  const auto& [num_hubs, max_distance, near, far] = *table;
  if (num_hubs > first || max_distance >= bounds.back()) {
    throw std::invalid_argument("the hubs of the table must rank before the range");
  }
  const TopView<Word> rows = checked_top<Word>(far, bounds, num_hubs);
  return {num_hubs, max_distance, near.has_value() ? checked_top<Word>(*near, bounds, num_hubs) : rows, rows};
}

// Both directions of the same graph.
void check_same_nodes(const Starts& one, const Starts& other, const Bounds& bounds) {
  check_bounds(bounds);
  if (one.size() != other.size() || bounds.back() != one.size() - 1) {
    throw std::invalid_argument("both directions and the bounds must have the same nodes");
  }
}

nb::object row_arrays(PackedRows&& rows) {
  return nb::make_tuple(to_numpy(std::move(rows.packed.offsets)), to_numpy(std::move(rows.packed.bytes)),
                        rows.num_entries, rows.max_distance);
}

template <class Word>
nb::object search_range(const Starts& push_offsets, const Ranks& push_targets, const Starts& pull_offsets,
                        const Ranks& pull_targets, std::uint32_t first, std::uint32_t last,
                        std::uint32_t radius, std::uint32_t plane_words, std::optional<Table<Word>> table,
                        const Bounds& bounds, unsigned threads, std::uint64_t max_bytes, nb::object progress) {
  const ArcsView push = checked_arcs(push_offsets, push_targets);
  const ArcsView pull = checked_arcs(pull_offsets, pull_targets);
  const std::size_t n = push_offsets.size() - 1;
  check_same_nodes(push_offsets, pull_offsets, bounds);
  if (first >= last || last > n) throw std::invalid_argument("hubs are not a range of ranks");
  if (plane_words != 0 && plane_words != 2 && plane_words != 4 && plane_words != 8) {
    throw std::invalid_argument("plane_words must be 0, 2, 4 or 8");
  }
  const TopTable<Word> top = checked_table(table, bounds, first);
  const HubRange range{static_cast<Node>(n), first, last, radius, plane_words, std::max(1u, threads)};
  Control control(max_bytes);
  HubShard shard;
  run_polled(control, std::move(progress),
             [&] { shard = search_hubs(range, push, pull, top, bounds, control); });
  const std::uint64_t num_arcs = shard.rows.num_arcs;
  const std::uint64_t num_tests = shard.rows.num_tests;
  return nb::make_tuple(row_arrays(std::move(shard.rows)), to_numpy(std::move(shard.slices.offsets)),
                        to_numpy(std::move(shard.slices.bytes)), num_arcs, num_tests, control.peak_bytes());
}

// (nodes, counts, hubs) of each part of a level
using LevelParts = std::vector<std::tuple<Ranks, Ranks, Ranks>>;
using Level = std::vector<LevelParts>;  // by side

std::vector<LevelView> views_of(const LevelParts& parts) {
  std::vector<LevelView> views;
  for (const auto& [nodes, counts, hubs] : parts) {
    views.push_back({{nodes.data(), nodes.size()}, {counts.data(), counts.size()}, {hubs.data(), hubs.size()}});
  }
  return views;
}

std::vector<std::vector<LevelView>> views_of(const Level& level) {
  std::vector<std::vector<LevelView>> sides;
  for (const LevelParts& parts : level) sides.push_back(views_of(parts));
  return sides;
}

// The groups of some nodes, from earlier ones and the levels that follow, of one side.
nb::object settled(const std::optional<std::tuple<Starts, Ranks>>& before,
                   const std::vector<std::tuple<std::uint32_t, LevelParts>>& levels, std::uint32_t first,
                   std::uint32_t begin, std::uint32_t end, std::uint32_t num_nodes, std::uint64_t max_bytes) {
  if (begin < first || begin > end || end > num_nodes) throw std::invalid_argument("the rows are not a range of ranks");
  std::optional<TopPart<Node>> earlier;
  if (before.has_value()) {
    const auto& [starts, words] = *before;
    check_part<std::uint32_t>(starts, words, end - begin, num_nodes);
    earlier = TopPart<Node>{begin, {starts.data(), starts.size()}, {words.data(), words.size()}};
  }
  std::vector<WholeLevel> whole;
  for (const auto& [distance, parts] : levels) {
    if (parts.empty()) throw std::invalid_argument("a level has parts");
    whole.push_back({distance, views_of(parts)});
  }
  Control control(max_bytes);
  TopRows<Node> rows;
  run_polled(control, nb::none(), [&] {
    rows = settled_rows(earlier ? &*earlier : nullptr, whole, first, begin, end, control);
  });
  return nb::make_tuple(to_numpy(std::move(rows.starts)), to_numpy(std::move(rows.words)), control.peak_bytes());
}

// The rest of the hubs, level by level, over mapped arrays that it keeps alive.
class NativeRest {
 public:
  // The table is that of searches along the arcs: its first labels are the out-labels, its others the in-labels.
  template <class Word>
  static NativeRest* make(const Starts& forward_offsets, const Ranks& forward_targets,
                          const Starts& backward_offsets, const Ranks& backward_targets, bool directed,
                          std::uint32_t first, std::uint32_t radius, std::optional<Table<Word>> table,
                          const Bounds& bounds, unsigned threads, std::uint64_t own_entries, std::uint64_t max_bytes) {
    const ArcsView forward = checked_arcs(forward_offsets, forward_targets);
    const ArcsView backward = checked_arcs(backward_offsets, backward_targets);
    const std::size_t n = forward_offsets.size() - 1;
    check_same_nodes(forward_offsets, backward_offsets, bounds);
    const TopTable<Word> top = checked_table<Word>(table, bounds, first);
    if (top.num_hubs != first || first >= n || radius == 0) {
      throw std::invalid_argument("the table must hold all hubs before the rest");
    }
    auto made = std::unique_ptr<NativeRest>(new NativeRest(bounds, first, directed, max_bytes));
    made->kept_.push_back(std::make_shared<std::tuple<Starts, Ranks, Starts, Ranks, std::optional<Table<Word>>>>(
        forward_offsets, forward_targets, backward_offsets, backward_targets, table));
    const RestOfHubs rest{static_cast<Node>(n), first, directed, radius, std::max(1u, threads), own_entries};
    run_polled(made->control_, nb::none(), [&] {
      made->search_ = rest_search<Word>(rest, forward, backward, top.far, top.near, made->control_);
    });
    return made.release();
  }
  NativeRest(const NativeRest&) = delete;
  NativeRest& operator=(const NativeRest&) = delete;

  nb::object find(std::size_t part, std::size_t num_parts) {
    if (part >= num_parts) throw std::invalid_argument("there is no such part");
    std::vector<LevelEntries> sides;
    run([&] { sides = search_->find(part, num_parts); });
    nb::list found;
    for (LevelEntries& side : sides) {
      found.append(nb::make_tuple(to_numpy(std::move(side.nodes)), to_numpy(std::move(side.counts)),
                                  to_numpy(std::move(side.hubs)), side.num_candidates));
    }
    return found;
  }

  void add(const Level& level) {
    run([&] { search_->add(views_of(level)); });
    levels_.push_back(std::make_shared<Level>(level));
  }

  // settled: (offsets in groups, groups) of each range of nodes, by side
  using Settled = std::vector<TableParts<std::uint32_t>>;
  void settle(std::uint32_t distance, const Settled& settled, const Level& level) {
    std::vector<std::vector<TopPart<Node>>> sides(settled.size());
    for (std::size_t s = 0; s < settled.size(); ++s) {
      if (settled[s].size() != bounds_.size() - 1) throw std::invalid_argument("settled labels do not fit the bounds");
      for (std::size_t i = 0; i < settled[s].size(); ++i) {
        const auto& [starts, words] = settled[s][i];
        const auto begin = std::max(bounds_[i], first_);
        const auto end = std::max(bounds_[i + 1], begin);
        check_part<std::uint32_t>(starts, words, end - begin, bounds_.back());
        sides[s].push_back({begin, {starts.data(), starts.size()}, {words.data(), words.size()}});
      }
    }
    run([&] { search_->take_settled(distance, sides, views_of(level)); });
    levels_.clear();
    levels_.push_back(std::make_shared<std::tuple<Settled, Level>>(settled, level));
  }

  void finish() {
    run([&] { search_->finish(); });
    finished_ = true;
  }

  nb::object holders(std::uint32_t first, std::uint32_t last) {
    check_finished();
    if (first >= last || last > bounds_.back()) throw std::invalid_argument("hubs are not a range of ranks");
    std::vector<PackedRows> found;
    run([&] { found = search_->holders(first, last); });
    nb::list sides;
    for (PackedRows& rows : found) sides.append(row_arrays(std::move(rows)));
    return sides;
  }

  nb::object labels(std::size_t side, std::uint32_t begin, std::uint32_t end) {
    check_finished();
    if (side >= num_sides_) throw std::invalid_argument("there is no such side");
    if (begin > end || end > bounds_.back()) throw std::invalid_argument("the rows are not a range of ranks");
    PackedRows rows;
    run([&] { rows = search_->labels(side, begin, end); });
    return row_arrays(std::move(rows));
  }

  std::uint64_t peak_bytes() const { return control_.peak_bytes(); }

 private:
  NativeRest(const Bounds& bounds, std::uint32_t first, bool directed, std::uint64_t max_bytes)
      : control_(max_bytes), bounds_(bounds), first_(first), num_sides_(directed ? 2 : 1) {}

  void check_finished() const {
    if (!finished_) throw std::invalid_argument("not all entries are found yet");
  }

  template <class Work>
  void run(Work&& work) {
    control_.stop.store(false);  // an earlier call may have been interrupted
    run_polled(control_, nb::none(), work);
  }

  Control control_;  // declared first: the search is charged to it
  const Bounds bounds_;
  const std::uint32_t first_;
  const std::size_t num_sides_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::shared_ptr<void>> levels_;
  std::unique_ptr<RestSearch> search_;
  bool finished_ = false;
};

// (first hub, last hub, bytes) of each slice, by ascending hubs
using SliceArrays = std::vector<std::tuple<std::uint32_t, std::uint32_t, Bytes>>;

std::vector<Slice> checked_slices(const SliceArrays& arrays, std::uint32_t begin, std::uint32_t end,
                                  std::uint32_t num_nodes) {
  if (begin > end || end > num_nodes) throw std::invalid_argument("the rows are not a range of ranks");
  std::vector<Slice> slices;
  Node before = 0;
  for (const auto& [first, last, bytes] : arrays) {
    if (first < before || last < first) throw std::invalid_argument("slices must ascend by hubs");
    slices.push_back({first, last, {bytes.data(), bytes.size()}});
    before = last;
  }
  if (before > num_nodes) throw std::invalid_argument("hubs are not ranks");
  return slices;
}

nb::object merge(const SliceArrays& arrays, std::uint32_t begin, std::uint32_t end, std::uint32_t num_nodes,
                 std::uint64_t max_bytes, nb::object progress) {
  const std::vector<Slice> slices = checked_slices(arrays, begin, end, num_nodes);
  Control control(max_bytes);
  PackedRows rows;
  run_polled(control, std::move(progress), [&] { rows = merge_slices(slices, begin, end, num_nodes, control); });
  return nb::make_tuple(row_arrays(std::move(rows)), control.peak_bytes());
}

template <class Word>
nb::object grouped(const std::vector<Slice>& slices, std::uint32_t begin, std::uint32_t end,
                   std::uint32_t num_nodes, std::uint64_t max_bytes, nb::object progress) {
  Control control(max_bytes);
  TopRows<Word> rows;
  run_polled(control, std::move(progress),
             [&] { rows = group_slices<Word>(slices, begin, end, num_nodes, control); });
  return nb::make_tuple(to_numpy(std::move(rows.starts)), to_numpy(std::move(rows.words)), control.peak_bytes());
}

nb::object top_rows(const SliceArrays& arrays, std::uint32_t begin, std::uint32_t end, std::uint32_t num_nodes,
                    bool wide, std::uint64_t max_bytes, nb::object progress) {
  const std::vector<Slice> slices = checked_slices(arrays, begin, end, num_nodes);
  if (!wide && !slices.empty() && slices.back().last_hub > kMostShortHubs) {
    throw std::invalid_argument("a table with words of two bytes holds at most 65024 hubs");
  }
  const auto rows = wide ? grouped<std::uint32_t> : grouped<std::uint16_t>;
  return rows(slices, begin, end, num_nodes, max_bytes, std::move(progress));
}

template <class Word>
void bind_search(nb::module_& module) {
  module.def("search_hubs", &search_range<Word>, nb::arg("push_offsets").noconvert(),
             nb::arg("push_targets").noconvert(), nb::arg("pull_offsets").noconvert(),
             nb::arg("pull_targets").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("radius"),
             nb::arg("plane_words"), nb::arg("table").none(), nb::arg("bounds"), nb::arg("threads"),
             nb::arg("max_bytes"), nb::arg("progress").none());
  module.def("rest_of_hubs", &NativeRest::make<Word>, nb::arg("forward_offsets").noconvert(),
             nb::arg("forward_targets").noconvert(), nb::arg("backward_offsets").noconvert(),
             nb::arg("backward_targets").noconvert(), nb::arg("directed"), nb::arg("first"), nb::arg("radius"),
             nb::arg("table").none(), nb::arg("bounds"), nb::arg("threads"), nb::arg("own_entries"),
             nb::arg("max_bytes"), nb::rv_policy::take_ownership);
}

}  // namespace

void bind_shards(nb::module_& module) {
  module.attr("MOST_PLANE_LEVELS") = kMostPlaneLevels;
  module.attr("MOST_SHORT_HUBS") = kMostShortHubs;
  module.attr("MOST_SHORT_DISTANCE") = kMostShortDistance;
  module.def("plane_bytes", &PlaneWorker::bytes_for, nb::arg("num_nodes"), nb::arg("words"));
  nb::class_<NativeRest>(module, "RestOfHubs")
      .def("find", &NativeRest::find, nb::arg("part"), nb::arg("num_parts"))
      .def("add", &NativeRest::add, nb::arg("level").noconvert())
      .def("settle", &NativeRest::settle, nb::arg("distance"), nb::arg("settled").noconvert(),
           nb::arg("level").noconvert())
      .def("finish", &NativeRest::finish)
      .def("holders", &NativeRest::holders, nb::arg("first"), nb::arg("last"))
      .def("labels", &NativeRest::labels, nb::arg("side"), nb::arg("begin"), nb::arg("end"))
      .def_prop_ro("peak_bytes", &NativeRest::peak_bytes);
  bind_search<std::uint16_t>(module);
  bind_search<std::uint32_t>(module);
  module.def("settled_rows", &settled, nb::arg("before").noconvert().none(), nb::arg("levels").noconvert(),
             nb::arg("first"), nb::arg("begin"), nb::arg("end"), nb::arg("num_nodes"), nb::arg("max_bytes"));
  module.def("merge_slices", &merge, nb::arg("slices"), nb::arg("begin"), nb::arg("end"),
             nb::arg("num_nodes"), nb::arg("max_bytes"), nb::arg("progress").none());
  module.def("top_rows", &top_rows, nb::arg("slices"), nb::arg("begin"), nb::arg("end"), nb::arg("num_nodes"),
             nb::arg("wide"), nb::arg("max_bytes"), nb::arg("progress").none());
}

}  // namespace dhilgt
