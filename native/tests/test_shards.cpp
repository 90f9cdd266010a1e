// Labels from independent units: ranges of hubs searched alone, merged by ranges of nodes.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "graphs.h"
#include "labels/pack.h"
#include "labels/rest.h"
#include "labels/shards.h"

namespace dhilgt {
namespace {

using namespace test;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kRandomGraphs = 60;
#else
constexpr std::uint64_t kRandomGraphs = 600;
#endif

struct Unit {
  Node first;
  Node last;
  HubShard shard;
};

template <class Word>
Unit search(const HubRange& range, const ArcsView& push, const ArcsView& pull, const TopTable<Word>& top,
            std::span<const Node> bounds, Control& control) {
  return {range.first, range.last, search_hubs(range, push, pull, top, bounds, control)};
}

bool same_rows(const PackedRows& a, const PackedRows& b) {
  return std::ranges::equal(a.packed.bytes.view(), b.packed.bytes.view()) &&
         std::ranges::equal(a.packed.offsets.view(), b.packed.offsets.view()) && a.num_entries == b.num_entries &&
         a.max_distance == b.max_distance;
}

bool same_bytes(const HubShard& a, const HubShard& b) {
  return same_rows(a.rows, b.rows) && std::ranges::equal(a.slices.bytes.view(), b.slices.bytes.view()) &&
         std::ranges::equal(a.slices.offsets.view(), b.slices.offsets.view());
}

Slice slice_of(const Unit& unit, std::size_t part) {
  const Offset begin = unit.shard.slices.offsets[part];
  return {unit.first, unit.last, unit.shard.slices.bytes.view().subspan(begin, unit.shard.slices.offsets[part + 1] - begin)};
}

template <class Word>
std::vector<TopRows<Word>> table_of(const std::vector<Unit>& units, std::span<const Node> bounds, Control& control) {
  std::vector<TopRows<Word>> parts;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    std::vector<Slice> slices;
    for (const Unit& unit : units) slices.push_back(slice_of(unit, part));
    parts.push_back(group_slices<Word>(slices, bounds[part], bounds[part + 1], bounds.back(), control));
  }
  return parts;
}

template <class Word>
TopView<Word> view_of(const std::vector<TopRows<Word>>& table, std::span<const Node> bounds) {
  std::vector<TopPart<Word>> parts;
  for (std::size_t part = 0; part < table.size(); ++part) {
    parts.push_back({bounds[part], table[part].starts.view(), table[part].words.view()});
  }
  return {std::move(parts), bounds.back()};
}

// The rows of two ranges of hubs are those of both.
void check_ranges(const RestSearch& search, Node first, Node last, const std::vector<PackedRows>& whole) {
  const Node middle = first + (last - first) / 2;
  if (middle == first) return;
  const std::vector<PackedRows> left = search.holders(first, middle);
  const std::vector<PackedRows> right = search.holders(middle, last);
  for (std::size_t s = 0; s < whole.size(); ++s) {
    std::vector<std::uint8_t> bytes;
    for (const PackedRows* part : {&left[s], &right[s]}) {
      bytes.insert(bytes.end(), part->packed.bytes.begin(), part->packed.bytes.end());
    }
    CHECK(std::equal(bytes.begin(), bytes.end(), whole[s].packed.bytes.begin(), whole[s].packed.bytes.end()));
    CHECK(left[s].num_entries + right[s].num_entries == whole[s].num_entries);
  }
}

// Units of two ranges: the best hubs by planes, the others hub by hub with the table of the best.
template <class Word>
void check_graph(std::uint64_t seed) {
  KeyedRandom random(seed, 5, 0);
  const auto n = static_cast<Node>(1 + random.below(60));
  const bool directed = random.below(2) == 0;
  const Graph graph = random_graph(n, random.below(3 * n + 1), directed, seed);
  Control control;
  {
    const Ranked ranked = rank(graph, control);
    const Labels labels = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs}, control);
    const auto num_top = static_cast<Node>(random.below(n + 1));
    const std::uint32_t words[] = {2, 4, 8};
    const auto threads = 1 + static_cast<unsigned>(random.below(3));
    std::vector<Node> bounds{0};
    while (bounds.back() < n) bounds.push_back(std::min<Node>(n, bounds.back() + 1 + static_cast<Node>(random.below(n))));
    const int sides = directed ? 2 : 1;
    std::vector<Unit> units[2];
    for (int side = 0; side < sides; ++side) {
      const ArcsView push = side == 0 ? ranked.graph.forward() : ranked.graph.backward();
      const ArcsView pull = side == 0 ? ranked.graph.backward() : ranked.graph.forward();
      if (num_top == 0) continue;
      const HubRange range{n, 0, num_top, kUnreachable, words[random.below(3)], threads};
      units[side].push_back(search(range, push, pull, TopTable<Word>{}, bounds, control));
    }
    std::vector<TopRows<Word>> tables[2];
    for (int side = 0; side < sides; ++side) tables[side] = table_of<Word>(units[side], bounds, control);
    std::vector<PackedRows> rest;  // the other hubs again, level by level
    std::unique_ptr<RestSearch> search_of_rest;
    std::vector<std::vector<LevelEntries>> levels;  // of each part of the nodes
    std::deque<TopRows<Node>> rows_kept;
    if (num_top < n) {
      search_of_rest = rest_search<Word>({n, num_top, directed, kUnreachable, threads, random.below(2) * 1000},
                                         ranked.graph.forward(), ranked.graph.backward(), view_of(tables[0], bounds),
                                         view_of(tables[directed ? 1 : 0], bounds), control);
      RestSearch* search = search_of_rest.get();
      std::vector<std::vector<WholeLevel>> recent(static_cast<std::size_t>(sides));  // not settled, by side
      std::vector<std::vector<TopPart<Node>>> settled(recent.size());
      const auto num_levels = static_cast<Distance>(random.below(5));
      for (Distance distance = 1; distance <= num_levels; ++distance) {
        const std::size_t before = levels.size();
        for (std::size_t part = 0; part < 3; ++part) levels.push_back(search->find(part, 3));
        std::vector<std::vector<LevelView>> views(recent.size());
        for (std::size_t i = before; i < levels.size(); ++i) {
          for (std::size_t s = 0; s < views.size(); ++s) {
            views[s].push_back({levels[i][s].nodes.view(), levels[i][s].counts.view(), levels[i][s].hubs.view()});
          }
        }
        search->add(views);
        for (std::size_t s = 0; s < views.size(); ++s) recent[s].push_back({distance, views[s]});
        if (random.below(2) == 0) continue;
        for (std::size_t s = 0; s < views.size(); ++s) {
          std::vector<TopPart<Node>> parts;
          for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
            const Node begin = std::max(bounds[part], num_top);
            const Node end = std::max(bounds[part + 1], begin);
            const TopPart<Node>* earlier = settled[s].empty() ? nullptr : &settled[s][part];
            rows_kept.push_back(settled_rows(earlier, recent[s], num_top, begin, end, control));
            parts.push_back({begin, rows_kept.back().starts.view(), rows_kept.back().words.view()});
          }
          settled[s] = parts;
          recent[s].clear();
        }
        search->take_settled(distance, settled, views);
      }
      search->finish();
      rest = search->holders(num_top, n);
      check_ranges(*search, num_top, n, rest);
    }
    for (int side = 0; side < sides; ++side) {
      check::context = "seed " + std::to_string(seed) + " side " + std::to_string(side);
      const ArcsView push = side == 0 ? ranked.graph.forward() : ranked.graph.backward();
      const ArcsView pull = side == 0 ? ranked.graph.backward() : ranked.graph.forward();
      auto view = [&](int of) { return view_of(tables[directed ? of : 0], bounds); };
      const Distance longest = units[side].empty() ? 0 : std::max(units[0][0].shard.rows.max_distance,
                                                                  units[sides - 1][0].shard.rows.max_distance);
      const TopTable<Word> top{num_top, longest, view(1 - side), view(side)};
      if (num_top < n) {
        const HubRange range{n, num_top, n, kUnreachable, 0, threads};
        units[side].push_back(search(range, push, pull, top, bounds, control));
        CHECK(same_rows(units[side].back().shard.rows, rest[static_cast<std::size_t>(side)]));
      }
      const PackedLabels expected = pack_labels(side == 0 ? labels.in_labels() : labels.out_labels(), 1, control);
      Offset before = 0;
      for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
        std::vector<Slice> slices;
        for (const Unit& unit : units[side]) slices.push_back(slice_of(unit, part));
        const PackedRows rows = merge_slices(slices, bounds[part], bounds[part + 1], n, control);
        const std::size_t size = rows.packed.bytes.size();
        CHECK(std::equal(rows.packed.bytes.begin(), rows.packed.bytes.end(), expected.bytes.data() + before));
        for (Node node = bounds[part]; node <= bounds[part + 1]; ++node) {
          CHECK(rows.packed.offsets[node - bounds[part]] + before == expected.offsets[node]);
        }
        if (search_of_rest) {
          CHECK(same_rows(search_of_rest->labels(static_cast<std::size_t>(side), bounds[part], bounds[part + 1]), rows));
        }
        before += size;
      }
      CHECK(before == expected.bytes.size());
    }
  }
  CHECK(control.used_bytes() == 0);
}

void merged_units_are_the_labels() {
  for (std::uint64_t seed = 0; seed < kRandomGraphs; ++seed) {
    check_graph<std::uint16_t>(seed);
    check_graph<std::uint32_t>(seed);
  }
}

void damaged_slices_are_refused() {
  const Graph graph = random_graph(300, 900, false, 3);
  Control control;
  const Ranked ranked = rank(graph, control);
  const Node bounds[] = {0, 300};
  Unit unit = search({300, 0, 300, kUnreachable, 8, 1}, ranked.graph.forward(), ranked.graph.backward(),
                     TopTable<std::uint16_t>{}, bounds, control);
  const Slice good = slice_of(unit, 0);
  for (std::size_t size = 0; size < good.bytes.size(); size += 7) {
    const Slice cut{0, 300, good.bytes.first(size)};
    try {
      merge_slices(std::span(&cut, 1), 0, 300, 300, control);  // may end between two nodes
    } catch (const BadPacking&) {
    }
  }
  KeyedRandom random(1, 2, 3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint8_t> bytes(good.bytes.begin(), good.bytes.end());
    for (int k = 0; k < 3; ++k) bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.next());
    const Slice damaged{0, 300, bytes};
    try {
      merge_slices(std::span(&damaged, 1), 0, 300, 300, control);
    } catch (const BadPacking&) {
    }
  }
}

void long_searches_leave_the_planes() {
  Edges edges;
  for (int v = 0; v < 499; ++v) edges.emplace_back(v, v + 1);
  const Graph graph = shuffled(500, edges, 1);
  Control control;
  const Ranked ranked = rank(graph, control);
  const HubRange planes{500, 0, 500, kUnreachable, 8, 2};
  HubRange one_by_one = planes;
  one_by_one.plane_words = 0;
  const TopTable<std::uint16_t> none;
  const Node bounds[] = {0, 200, 500};
  const auto search = [&](const HubRange& range) {
    return search_hubs(range, ranked.graph.forward(), ranked.graph.backward(), none, bounds, control);
  };
  const HubShard a = search(planes);
  CHECK(a.rows.max_distance > kMostPlaneLevels);
  CHECK(same_bytes(a, search(one_by_one)));
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("merged units are the labels", merged_units_are_the_labels);
  check::run("damaged slices are refused", damaged_slices_are_refused);
  check::run("long searches leave the planes", long_searches_leave_the_planes);
}
