// Distances and hubs from labels, in memory and packed, against breadth-first search.
#include "check.h"
#include "graphs.h"
#include "labels/query.h"

namespace dhilgt {
namespace {

using namespace test;

void check_all_pairs(const RankedGraph& graph, const LabelSource& out, const LabelSource& in) {
  const Node n = graph.num_nodes;
  const auto expected = all_distances(graph.forward(), n);
  std::vector<Node> sources, targets, nodes(n);
  std::iota(nodes.begin(), nodes.end(), 0);
  KeyedRandom random(n, 0, 0);
  for (std::size_t i = 0; i < std::size_t{n} * n; ++i) {  // all pairs, in a scattered order
    sources.push_back(static_cast<Node>(i * 7919 % n));
    targets.push_back(static_cast<Node>(random.below(n)));
  }
  std::vector<Distance> distances(sources.size()), matrix(std::size_t{n} * n);
  std::vector<Node> hubs(sources.size());
  for (const unsigned threads : {1u, 3u}) {
    Control control;
    answer_pairs(out, in, sources, targets, distances, hubs, threads, control);
    for (std::size_t i = 0; i < distances.size(); ++i) {
      const Node u = sources[i];
      const Node v = targets[i];
      CHECK(distances[i] == expected[u][v]);
      Node best = kNoNode;  // the best ranked node on any shortest path
      for (Node w = 0; w < n && best == kNoNode && distances[i] != kUnreachable; ++w) {
        if (expected[u][w] != kUnreachable && expected[w][v] != kUnreachable && expected[u][w] + expected[w][v] == distances[i]) best = w;
      }
      CHECK(hubs[i] == best);
    }
    answer_matrix(out, in, nodes, matrix, threads, control);
    for (Node u = 0; u < n; ++u) {
      for (Node v = 0; v < n; ++v) CHECK(matrix[std::size_t{u} * n + v] == expected[u][v]);
    }
  }
}

void all_pairs_are_exact() {
  for (const Graph& graph : {random_graph(150, 220, false, 1), random_graph(150, 260, true, 2), path_graph(600, 3),
                             make_graph(1, {}, false), make_graph(3, {}, true)}) {
    Control control;
    const Ranked ranked = rank(graph, control);
    const Labels labels = build_labels(ranked.graph, {Algorithm::automatic, 2, kPlanHubs}, control);
    const LabelSource out{&labels.out_labels(), {}};
    const LabelSource in{&labels.in_labels(), {}};
    check_all_pairs(ranked.graph, out, in);
    const PackedLabels packed_out = pack_labels(labels.out_labels(), 1, control);
    const PackedLabels packed_in = pack_labels(labels.in_labels(), 1, control);
    const LabelSource stored_out{nullptr, {graph.num_nodes, packed_out.offsets.view(), packed_out.bytes.view()}};
    const LabelSource stored_in{nullptr, {graph.num_nodes, packed_in.offsets.view(), packed_in.bytes.view()}};
    check_all_pairs(ranked.graph, stored_out, stored_in);
  }
}

// A damaged source throws every time, not only the first time.
void a_damaged_source_always_throws() {
  const Graph graph = make_graph(3, {{0, 1}, {1, 2}}, false);
  Control control;
  const Ranked ranked = rank(graph, control);
  const Labels labels = build_labels(ranked.graph, {Algorithm::automatic, 1, kPlanHubs}, control);
  PackedLabels packed = pack_labels(labels.in, 1, control);
  packed.bytes[packed.offsets[2]] = 0xFF;
  const LabelSource source{nullptr, {3, packed.offsets.view(), packed.bytes.view()}};
  Querier querier(source, source);
  querier.set_source(1);
  CHECK(querier.to(0).distance == 1);
  for (int times = 0; times < 3; ++times) CHECK_THROWS(BadPacking, querier.set_source(2));
  querier.set_source(1);
  CHECK(querier.to(0).distance == 1 && querier.to(1).distance == 0);
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("all pairs are exact", all_pairs_are_exact);
  check::run("a damaged source always throws", a_damaged_source_always_throws);
}
