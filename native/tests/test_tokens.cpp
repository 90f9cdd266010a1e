// Token rows: which nodes are drawn, how often, and the distances among them.
#include <cmath>
#include <set>

#include "base/simd.h"
#include "check.h"
#include "graphs.h"
#include "labels/holders.h"
#include "labels/query.h"
#include "labels/pack.h"
#include "tokens/batch.h"
#include "tokens/numbers.h"
#include "tokens/rows.h"

namespace dhilgt {
namespace {

using namespace test;

struct Source {
  Ranked ranked;
  Labels labels;
  LabelSet joined, holders;
  TokenSource view;

  Source(const Graph& graph, Control& control, Distance radius = kUnreachable) {
    ranked = rank(graph, control);
    labels = build_labels(ranked.graph, {Algorithm::automatic, 2, kPlanHubs, radius}, control);
    if (graph.directed) joined = join_labels(labels.in, labels.out, 2, control);
    const LabelSet& hubs = graph.directed ? joined : labels.in;
    holders = invert_labels(hubs, 2, control);
    view = {&labels.in_labels(), &labels.out_labels(), &hubs, &holders, ranked.node_at.view(), graph.directed,
            radius != kUnreachable};
  }
};

void rows_are_right(const Graph& graph, const TokenShape& shape) {
  Control control;
  const Source source(graph, control);
  const Node n = graph.num_nodes;
  const auto expected = all_distances(source.ranked.graph.forward(), n);
  std::vector<Node> rank_of(n), ranks(n);
  for (Node r = 0; r < n; ++r) rank_of[source.ranked.node_at[r]] = ranks[r] = r;
  const std::size_t pairs = packed_pairs(shape.size, graph.directed);
  std::vector<std::int32_t> ids(std::size_t{n} * shape.size), again(ids.size());
  std::vector<std::uint8_t> packed(n * pairs), packed_again(packed.size());
  std::vector<std::uint16_t> parts(2 * std::size_t{n});
  TokenFactory factory(source.view, control);
  factory.make_rows(shape, ranks, 0, ids, parts, packed, 1, control);
  factory.make_rows(shape, ranks, 0, again, parts, packed_again, 3, control);
  CHECK(ids == again && packed == packed_again);
  auto as_byte = [](Distance distance) -> unsigned {
    return distance == kUnreachable ? kUnreachableByte : std::min<Distance>(distance, kFarByte);
  };
  for (Node r = 0; r < n; ++r) {
    const std::int32_t* row = ids.data() + std::size_t{r} * shape.size;
    const std::uint8_t* bytes = packed.data() + r * pairs;
    CHECK(rank_of[static_cast<Node>(row[0])] == r);
    std::set<Node> allowed{r};
    for (const LabelSet* side : {source.view.hubs, source.view.holders}) {
      for (const Node other : side->of(r).hubs) allowed.insert(other);
    }
    std::size_t members = 0;
    while (members < shape.size && row[members] >= 0) ++members;
    CHECK(std::all_of(row + members, row + shape.size, [](std::int32_t id) { return id == -1; }));
    CHECK(std::set<std::int32_t>(row, row + members).size() == members);
    const std::size_t drawn = std::size_t{1} + parts[2 * std::size_t{r}] + parts[2 * std::size_t{r} + 1];
    CHECK(shape.fill_neighbors ? drawn <= members : drawn == members);
    for (std::size_t i = 0; i < shape.size; ++i) {
      if (i < members) CHECK(allowed.contains(rank_of[static_cast<Node>(row[i])]));
      for (std::size_t j = 0; j < i; ++j) {
        const std::size_t at = i * (i - 1) / 2 + j;
        const bool real = i < members;
        const Node a = real ? rank_of[static_cast<Node>(row[i])] : 0;
        const Node b = real ? rank_of[static_cast<Node>(row[j])] : 0;
        CHECK(bytes[at] == (real ? as_byte(expected[b][a]) : kUnreachableByte));
        if (graph.directed) CHECK(bytes[pairs / 2 + at] == (real ? as_byte(expected[a][b]) : kUnreachableByte));
      }
    }
  }
}

void distances_equal_those_of_search() {
  const Simd before = simd_level();
  for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
    if (level > simd_supported()) continue;
    set_simd_level(level);
    for (const bool directed : {false, true}) {
      const Graph graph = random_graph(200, 420, directed, 11);
      rows_are_right(graph, {});
      rows_are_right(graph, {.size = 60, .num_out = 20, .num_in = 39});
      rows_are_right(graph, {.size = 90, .num_out = 40, .num_in = 49});  // too large for the byte kernel
      rows_are_right(graph, {.size = 8, .num_out = 0, .num_in = 3, .spill = true, .fill_neighbors = true});
      rows_are_right(graph, {.size = 1, .num_out = 0, .num_in = 0});
    }
    rows_are_right(path_graph(900, 4), {});  // distances above a byte
    rows_are_right(make_graph(3, {}, false), {});
  }
  set_simd_level(before);
}

// Rows of some egos from packed records of the ranks that occur are those of a factory over all labels.
void batches_equal_the_factory() {
  Control control;
  for (const bool directed : {false, true}) {
    const Graph graph = random_graph(300, 700, directed, 5);
    const Source source(graph, control);
    const LabelSet in_holders = invert_labels(source.labels.in_labels(), 1, control);
    const LabelSet out_holders = invert_labels(source.labels.out_labels(), 1, control);
    const LabelSet* sets[] = {&source.labels.in_labels(), &source.labels.out_labels(), &in_holders, &out_holders};
    std::vector<PackedLabels> whole;
    for (const LabelSet* set : sets) whole.push_back(pack_labels(*set, 1, control));
    auto gather = [&](std::size_t set, std::span<const Node> ranks) {
      const PackedView view(graph.num_nodes, whole[set].offsets.view(), whole[set].bytes.view());
      return gather_records(view, ranks, control);
    };
    auto batch = [&](std::span<const Node> ranks, const PackedLabels& in, const PackedLabels& out) {
      return PackedBatch{graph.num_nodes, directed, ranks, {in.offsets.view(), in.bytes.view()},
                         {out.offsets.view(), out.bytes.view()}};
    };
    std::vector<Node> egos, nodes;
    for (Node rank = 0; rank < graph.num_nodes; rank += 3) {
      egos.push_back(rank);
      nodes.push_back(source.ranked.node_at[rank]);
    }
    for (const TokenShape& shape : {TokenShape{}, TokenShape{.size = 90, .num_out = 40, .num_in = 49},
                                    TokenShape{.size = 8, .num_out = 1, .num_in = 3, .spill = true, .fill_neighbors = true}}) {
      const std::size_t slots = egos.size() * shape.size;
      const std::size_t pairs = egos.size() * packed_pairs(shape.size, directed);
      std::vector<std::int32_t> ids(slots);
      std::vector<std::uint16_t> parts(2 * egos.size()), batch_parts(parts.size());
      std::vector<std::uint8_t> packed(pairs), batch_packed(pairs);
      TokenFactory factory(source.view, control);
      factory.make_rows(shape, egos, 7, ids, parts, packed, 1, control);
      std::vector<Node> members(slots);
      const PackedLabels labels[] = {gather(0, egos), gather(1, egos)};
      const PackedLabels holders[] = {gather(2, egos), gather(3, egos)};
      sample_members(shape, batch(egos, labels[0], labels[1]), batch(egos, holders[0], holders[1]), nodes, 7,
                     members, batch_parts, 3, control);
      CHECK(batch_parts == parts);
      for (std::size_t i = 0; i < slots; ++i) {
        CHECK(ids[i] == (members[i] == kNoMember ? -1 : static_cast<std::int32_t>(source.ranked.node_at[members[i]])));
      }
      const Buffer<Node> distinct = number_members(graph.num_nodes, members, control);
      const PackedLabels fetched[] = {gather(0, distinct.view()), gather(1, distinct.view())};
      const BatchLabels decoded(batch(distinct.view(), fetched[0], fetched[1]), false, 3, control);
      decoded.row_distances(shape.size, members, batch_packed, 3, control);
      CHECK(batch_packed == packed);
    }
  }
}

void ranks_are_numbered_in_order() {
  Control control;
  for (const Node count : {1u, 63u, 64u, 65u, 1000u}) {
    RankNumbers numbers(count, control);
    std::set<Node> added;
    KeyedRandom random(count, 0, 0);
    for (int i = 0; i < 200; ++i) {
      const Node rank = static_cast<Node>(random.below(count));
      added.insert(rank);
      numbers.add(rank);
    }
    numbers.finish();
    CHECK(numbers.count() == added.size());
    Node next = 0;
    for (const Node rank : added) CHECK(numbers[rank] == next++);
    auto expected = added.begin();
    numbers.each([&](Node rank) { CHECK(rank == *expected++); });
  }
}

// Labels with a radius: exact within it, else a bound or far, and never "no path" between two members.
void a_radius_never_says_no_path() {
  const Simd before = simd_level();
  for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
    if (level > simd_supported()) continue;
    set_simd_level(level);
    for (const std::uint32_t size : {32u, 64u, 90u}) {  // two widths of bytes, then words
      for (const bool directed : {false, true}) {
        const Distance radius = 2;
        const Graph graph = random_graph(200, 420, directed, 11);
        Control control;
        const Source source(graph, control, radius);
        const auto expected = all_distances(source.ranked.graph.forward(), 200);
        std::vector<Node> rank_of(200), ranks(200);
        for (Node r = 0; r < 200; ++r) rank_of[source.ranked.node_at[r]] = ranks[r] = r;
        const std::size_t pairs = packed_pairs(size, directed);
        std::vector<std::int32_t> ids(std::size_t{200} * size);
        std::vector<std::uint8_t> packed(200 * pairs);
        std::vector<std::uint16_t> parts(400);
        TokenFactory factory(source.view, control);
        factory.make_rows({.size = size, .num_out = size / 2, .num_in = size / 2 - 1}, ranks, 0, ids, parts,
                          packed, 2, control);
        std::size_t far = 0;
        auto check_pair = [&](unsigned byte, Distance distance) {
          far += byte == kFarByte;
          if (distance <= radius) CHECK(byte == distance);
          else CHECK(byte == kFarByte || (byte > radius && byte <= 2 * radius && byte >= distance));
        };
        for (Node r = 0; r < 200; ++r) {
          for (std::size_t i = 0; i < size; ++i) {
            for (std::size_t j = 0; j < i; ++j) {
              const std::size_t at = r * pairs + i * (i - 1) / 2 + j;
              const std::int32_t from = ids[std::size_t{r} * size + j];
              const std::int32_t to = ids[std::size_t{r} * size + i];
              if (to < 0) {
                CHECK(packed[at] == kUnreachableByte);
                continue;
              }
              const Node a = rank_of[static_cast<Node>(from)];
              const Node b = rank_of[static_cast<Node>(to)];
              check_pair(packed[at], expected[a][b]);
              if (directed) check_pair(packed[at + pairs / 2], expected[b][a]);
            }
          }
        }
        CHECK(far > 0);
      }
    }
  }
  set_simd_level(before);
}

// A label with hubs at distances 1, 2 and 3, one draw each: frequencies follow distance^exponent.
void draws_follow_the_weights() {
  const std::vector<Node> hubs{9, 0, 1, 2, 3, 4, 5};
  const std::vector<Segment> segments{{0, 1}, {1, 2}, {2, 4}, {3, 7}};
  const Distance distance_at[] = {0, 1, 2, 2, 3, 3, 3};
  for (const double exponent : {-4.0, -1.0, 0.0, 0.5, 2.0}) {
    const DistanceWeights weights(exponent);
    double total = 0;
    for (int position = 1; position < 7; ++position) total += std::pow(distance_at[position], exponent);
    std::vector<int> times(7, 0);
    LabelSampler sampler;
    constexpr int kDraws = 40000;
    for (std::uint64_t node = 0; node < kDraws; ++node) {
      KeyedRandom random(1, 0, node);
      std::vector<Node> chosen;
      sampler.draw({hubs, segments}, weights, 1, random, chosen);
      CHECK(chosen.size() == 1);
      ++times[chosen[0]];
    }
    CHECK(times[0] == 0);
    double chi_square = 0;
    for (int position = 1; position < 7; ++position) {
      const double expected = kDraws * std::pow(distance_at[position], exponent) / total;
      chi_square += (times[static_cast<std::size_t>(position)] - expected) *
                    (times[static_cast<std::size_t>(position)] - expected) / expected;
    }
    CHECK(chi_square < 25.7);  // p = 1e-4 at five degrees of freedom
  }
}

void draws_are_distinct_and_complete() {
  std::vector<Node> hubs(2001);
  std::vector<Segment> segments{{0, 1}};
  for (Node i = 1; i <= 2000; ++i) {
    hubs[i] = i - 1;
    if (i % 5 == 0) segments.push_back({i / 5, i + 1});  // 400 distances: pools of ranges
  }
  LabelSampler sampler;
  for (const double exponent : {-3.0, 0.0, 3.0, -300.0, 300.0}) {
    for (const std::size_t quota : {0u, 1u, 31u, 1999u, 2000u, 5000u}) {
      if (quota == 1999 && std::fabs(exponent) > 10) continue;
      KeyedRandom random(3, 1, quota);
      std::vector<Node> chosen;
      sampler.draw({hubs, segments}, DistanceWeights(exponent), quota, random, chosen);
      CHECK(chosen.size() == std::min<std::size_t>(quota, 2000));
      CHECK(std::adjacent_find(chosen.begin(), chosen.end(), std::greater_equal<>()) == chosen.end());
      if (!chosen.empty()) CHECK(chosen.front() >= 1 && chosen.back() <= 2000);
    }
  }
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("distances equal those of search", distances_equal_those_of_search);
  check::run("batches equal the factory", batches_equal_the_factory);
  check::run("ranks are numbered in order", ranks_are_numbered_in_order);
  check::run("a radius never says no path", a_radius_never_says_no_path);
  check::run("draws follow the weights", draws_follow_the_weights);
  check::run("draws are distinct and complete", draws_are_distinct_and_complete);
}
