// Every algorithm gives the labels of the definition, for any number of threads, planes and SIMD level.
#include "base/simd.h"
#include "check.h"
#include "graphs.h"
#include "labels/gather.h"
#include "labels/holders.h"

namespace dhilgt {
namespace {

using namespace test;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kRandomGraphs = 150;  // fewer: starting threads is slow, and races show early
#else
constexpr std::uint64_t kRandomGraphs = 1500;
#endif

std::vector<std::uint64_t> probed(LabelSizeProbe& probe, const Adjacency& arcs, Node node,
                                  Distance max_distance, Control& control) {
  std::vector<std::uint64_t> sizes;
  probe.count(arcs, node, max_distance, sizes, control);
  while (!sizes.empty() && sizes.back() == 0) sizes.pop_back();  // reached, but no hub there
  return sizes;
}

std::vector<std::uint64_t> sizes_by_distance(const Entries& entries, Distance max_distance) {
  std::vector<std::uint64_t> sizes;
  for (const auto& [distance, hub] : entries) {
    if (distance > max_distance) continue;
    if (sizes.size() <= distance) sizes.resize(distance + 1);
    ++sizes[distance];
  }
  return sizes;
}

void ranks_are_by_degree_then_index() {
  //  0 - 3 - 1     degrees 1 1 1 3 0
  //      |
  //      2     4
  const Graph graph = make_graph(5, {{0, 3}, {3, 1}, {2, 3}}, false);
  Control control;
  const Ranked ranked = rank(graph, control);
  const Node order[] = {3, 0, 1, 2, 4};
  CHECK(std::equal(ranked.node_at.begin(), ranked.node_at.end(), order, order + 5));
  CHECK(std::ranges::equal(ranked.graph.forward().of(0), std::vector<Node>{1, 2, 3}));
  CHECK(std::ranges::equal(ranked.graph.forward().of(2), std::vector<Node>{0}));
  CHECK(ranked.graph.forward().of(4).empty());
}

void directed_ranks_count_both_ends() {
  const Graph graph = make_graph(3, {{0, 2}, {1, 2}}, true);
  Control control;
  const Ranked ranked = rank(graph, control);
  CHECK(ranked.node_at[0] == 2);
  CHECK(ranked.graph.forward().of(0).empty());
  CHECK(std::ranges::equal(ranked.graph.backward().of(0), std::vector<Node>{1, 2}));
}

void labels_are_those_of_the_definition() {
  for (std::uint64_t seed = 0; seed < kRandomGraphs; ++seed) {
    KeyedRandom random(seed, 0, 0);
    const auto n = static_cast<Node>(1 + random.below(16));
    const bool directed = random.below(2) == 0;
    const Graph graph = random_graph(n, random.below(2 * n + 1), directed, seed);
    Control control;
    const Ranked ranked = rank(graph, control);
    const auto in = labels_by_definition(ranked.graph, true);
    const auto out = labels_by_definition(ranked.graph, false);
    LabelSizeProbe probe(n, control);
    for (const Algorithm algorithm : kAlgorithms) {
      check::context = "seed " + std::to_string(seed) + " algorithm " + std::to_string(static_cast<int>(algorithm));
      const auto plane_hubs = algorithm == Algorithm::automatic ? static_cast<Node>(random.below(n + 2)) : kPlanHubs;
      const Labels labels = build_labels(ranked.graph, {algorithm, 1 + static_cast<unsigned>(seed % 3), plane_hubs}, control);
      CHECK(entries_of(labels.in_labels()) == in);
      CHECK(entries_of(labels.out_labels()) == out);
    }
    for (Node v = 0; v < n; ++v) {
      const auto radius = static_cast<Distance>(1 + random.below(5));
      for (const Distance end : {kUnreachable, radius}) {
        CHECK(probed(probe, ranked.graph.backward(), v, end, control) == sizes_by_distance(in[v], end));
        CHECK(probed(probe, ranked.graph.forward(), v, end, control) == sizes_by_distance(out[v], end));
      }
    }
  }
}

// A radius leaves out the entries beyond it and nothing else.
void a_radius_keeps_the_nearer_entries() {
  for (std::uint64_t seed = 0; seed < kRandomGraphs; ++seed) {
    KeyedRandom random(seed, 1, 0);
    const auto n = static_cast<Node>(1 + random.below(24));
    const bool directed = random.below(2) == 0;
    const Graph graph = random_graph(n, random.below(2 * n + 1), directed, seed);
    Control control;
    const Ranked ranked = rank(graph, control);
    const auto radius = static_cast<Distance>(1 + random.below(5));
    auto within = [&](bool of_in) {
      auto labels = labels_by_definition(ranked.graph, of_in);
      for (Entries& entries : labels) {
        std::erase_if(entries, [&](const auto& entry) { return entry.first > radius; });
      }
      return labels;
    };
    const auto in = within(true);
    const auto out = within(false);
    for (const Algorithm algorithm : kAlgorithms) {
      check::context = "seed " + std::to_string(seed) + " algorithm " + std::to_string(static_cast<int>(algorithm));
      const auto plane_hubs = algorithm == Algorithm::automatic ? static_cast<Node>(random.below(n + 2)) : kPlanHubs;
      const BuildOptions options{algorithm, 1 + static_cast<unsigned>(seed % 3), plane_hubs, radius};
      const Labels labels = build_labels(ranked.graph, options, control);
      CHECK(entries_of(labels.in_labels()) == in);
      CHECK(entries_of(labels.out_labels()) == out);
    }
  }
}

// Long paths too: marks of the tail in words, and no search hub by hub where the radius ends it.
void all_algorithms_give_the_same_bytes_for_a_radius() {
  for (const Graph& graph : {random_graph(5000, 14000, false, 7), random_graph(5000, 9000, true, 7),
                             path_graph(3000, 5), grid_graph(45, 6)}) {
    Control control;
    const Ranked ranked = rank(graph, control);
    for (const Distance radius : {1u, 3u, 64u, 65u, 254u, 255u, 70000u}) {
      const Labels expected = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs, radius}, control);
      check::context = "radius " + std::to_string(radius);
      CHECK(expected.in.max_distance() <= radius);
      for (const Node planes : {0u, 512u, kPlanHubs}) {
        CHECK(same(build_labels(ranked.graph, {Algorithm::automatic, 3, planes, radius}, control), expected));
      }
      if (radius > 65) continue;
      CHECK(same(build_labels(ranked.graph, {Algorithm::psl, 2, kPlanHubs, radius}, control), expected));
      CHECK(same(build_labels(ranked.graph, {Algorithm::planes, 2, kPlanHubs, radius}, control), expected));
    }
  }
}

void a_probe_counts_far_hubs_together() {
  const Graph graph = path_graph(3000, 5);
  Control control;
  const Ranked ranked = rank(graph, control);
  const Labels labels = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs}, control);
  LabelSizeProbe probe(3000, control);
  std::size_t longest = 0;
  for (Node v = 2900; v < 3000; ++v) {
    const std::vector<std::uint64_t> sizes = probed(probe, ranked.graph.forward(), v, kUnreachable, control);
    longest = std::max(longest, sizes.size());
    CHECK(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) == labels.in.of(v).hubs.size());
  }
  CHECK(longest == LabelSizeProbe::kLastDistance + 1);
}

void a_short_radius_needs_no_search_hub_by_hub() {
  const Graph graph = path_graph(3000, 5);
  Control control;
  const Ranked ranked = rank(graph, control);
  build_labels(ranked.graph, {Algorithm::automatic, 1, kPlanHubs, 8}, control);
  CHECK(control.total.load() != 3000);  // which counts roots
  build_labels(ranked.graph, {Algorithm::automatic, 1, kPlanHubs}, control);
  CHECK(control.total.load() == 3000);
}

void all_algorithms_give_the_same_bytes() {
  for (const bool directed : {false, true}) {
    const Graph graph = random_graph(5000, directed ? 9000 : 14000, directed, 7);  // three pieces
    Control control;
    const Ranked ranked = rank(graph, control);
    const Labels expected = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs}, control);
    for (const unsigned threads : {1u, 2u, 3u, 7u}) {
      for (const Node planes : {0u, 1u, 511u, 512u, 513u, 1024u, 2500u, 4999u, 5000u, kPlanHubs}) {
        if (threads != 2 && planes != 513 && planes != kPlanHubs) continue;
        check::context = "threads " + std::to_string(threads) + " planes " + std::to_string(planes);
        CHECK(same(build_labels(ranked.graph, {Algorithm::automatic, threads, planes}, control), expected));
      }
      CHECK(same(build_labels(ranked.graph, {Algorithm::psl, threads, kPlanHubs}, control), expected));
    }
    const Simd before = simd_level();
    for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
      if (level > simd_supported()) continue;
      set_simd_level(level);
      check::context = simd_name(level);
      CHECK(same(build_labels(ranked.graph, {Algorithm::planes, 2, kPlanHubs}, control), expected));
    }
    set_simd_level(before);
  }
}

// Distances above a byte switch the marks of the tail to words; its chains are settled many times.
void long_distances_are_exact() {
  for (const Graph& graph : {path_graph(3000, 5), grid_graph(45, 6)}) {
    Control control;
    const Ranked ranked = rank(graph, control);
    const Labels expected = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs}, control);
    for (const unsigned threads : {1u, 3u}) {
      for (const Node planes : {kPlanHubs, 0u, 512u}) {
        CHECK(same(build_labels(ranked.graph, {Algorithm::automatic, threads, planes}, control), expected));
      }
    }
  }
}

void blocks_are_independent() {
  const Graph graph = random_graph(2500, 6000, true, 9);
  Control control;
  const Ranked ranked = rank(graph, control);
  const Labels expected = build_labels(ranked.graph, {Algorithm::pll, 1, kPlanHubs}, control);
  for (const Node width : {1u, 100u, 512u}) {
    const Node first_hub = width == 1 ? 2400 : 0;  // one by one for the last hundred only
    PlaneWorker worker(2500, control);
    std::vector<PlaneBlock> blocks;
    for (Node first = first_hub; first < 2500; first += width) {
      blocks.push_back(worker.run(ranked.graph.backward(), first, std::min<Node>(2500, first + width),
                                  kUnreachable, control));
      CHECK(blocks.back().complete);
    }
    const LabelSet gathered = gather_labels(2500, blocks, 2, control);
    for (Node v = 0; v < 2500; ++v) {
      Entries entries = entries_of(expected.in.of(v));
      std::erase_if(entries, [&](const auto& entry) { return entry.second < first_hub && entry.second != v; });
      CHECK(entries_of(gathered.of(v)) == entries);
    }
  }
}

void a_search_above_the_level_limit_is_incomplete() {
  const Graph graph = path_graph(500, 1);
  Control control;
  const Ranked ranked = rank(graph, control);
  PlaneWorker worker(500, control);
  CHECK(!worker.run(ranked.graph.backward(), 0, 500, 3, control).complete);
  CHECK(worker.run(ranked.graph.backward(), 0, 500, kUnreachable, control).complete);
}

void inverting_twice_is_identity() {
  for (const Graph& graph : {random_graph(4000, 9000, true, 3), path_graph(700, 2), make_graph(1, {}, false)}) {
    Control control;
    const Ranked ranked = rank(graph, control);
    const Labels labels = build_labels(ranked.graph, {Algorithm::automatic, 2, kPlanHubs}, control);
    for (const unsigned threads : {1u, 2u, 7u}) {
      const LabelSet holders = invert_labels(labels.out_labels(), threads, control);
      CHECK(holders.num_entries() == labels.out_labels().num_entries());
      CHECK(same(invert_labels(holders, threads, control), labels.out_labels()));
      for (Node v = 0; v < std::min<Node>(50, graph.num_nodes); ++v) {
        for (const auto& [distance, hub] : entries_of(labels.out_labels().of(v))) {
          const Entries held = entries_of(holders.of(hub));
          CHECK(std::find(held.begin(), held.end(), std::pair{distance, v}) != held.end());
        }
      }
    }
  }
}

void all_memory_is_released() {
  const Graph graph = random_graph(3000, 9000, true, 4);
  Control control;
  {
    const Ranked ranked = rank(graph, control);
    for (const Algorithm algorithm : kAlgorithms) {
      const Labels labels = build_labels(ranked.graph, {algorithm, 3, kPlanHubs}, control);
      CHECK(control.used_bytes() >= labels.in.num_bytes() + labels.out.num_bytes());
    }
  }
  CHECK(control.used_bytes() == 0);
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("ranks are by degree, then index", ranks_are_by_degree_then_index);
  check::run("directed ranks count both ends", directed_ranks_count_both_ends);
  check::run("labels are those of the definition", labels_are_those_of_the_definition);
  check::run("a radius keeps the nearer entries", a_radius_keeps_the_nearer_entries);
  check::run("all algorithms give the same bytes", all_algorithms_give_the_same_bytes);
  check::run("all algorithms give the same bytes for a radius", all_algorithms_give_the_same_bytes_for_a_radius);
  check::run("a probe counts far hubs together", a_probe_counts_far_hubs_together);
  check::run("a short radius needs no search hub by hub", a_short_radius_needs_no_search_hub_by_hub);
  check::run("long distances are exact", long_distances_are_exact);
  check::run("blocks are independent", blocks_are_independent);
  check::run("a search above the level limit is incomplete", a_search_above_the_level_limit_is_incomplete);
  check::run("inverting twice is identity", inverting_twice_is_identity);
  check::run("all memory is released", all_memory_is_released);
}
