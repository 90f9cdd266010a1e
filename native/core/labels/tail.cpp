#include "labels/tail.h"

#include <span>
#include <utility>

#include "labels/fill.h"
#include "labels/tail_builder.h"

namespace dhilgt {
namespace {

using TopLabels = GroupedLabels<std::uint16_t>;  // hubs found by the planes

// Calls visit(distance, hubs) for the self entry, then for the top and tail entries of a node by
// ascending distance, top entries (the better hubs) first.
template <class Visit>
void merge(const Side<TopLabels>& side, Node node, Visit&& visit) {
  visit(Distance{0}, std::span(&node, 1));
  std::span<const Node> tail;
  if (node >= side.first_hub) tail = side.settled.of(node - side.first_hub);
  auto visit_tail_before = [&](Distance limit) {
    std::size_t words = 0;
    while (words < tail.size() && tail[words] < limit) words += kGroupWords;
    each_group(tail.first(words), visit);
    tail = tail.subspan(words);
  };
  if (side.first_hub > 0) {
    each_group(side.top.of(node), [&](Distance distance, auto hubs) {
      visit_tail_before(distance);
      visit(distance, hubs);
    });
  }
  visit_tail_before(kUnreachable);
}

LabelSet joined(Side<TopLabels>& side, Node num_nodes, unsigned threads, Control& control) {
  return fill_label_set(
      num_nodes, threads, control,
      [&](Node begin, Node end, auto&& emit) {
        for (Node node = begin; node < end; ++node) {
          merge(side, node, [&](Distance distance, const auto& hubs) { emit(node, distance, hubs); });
        }
      },
      // The sources are freed while the result is written: the peak is not the sum of the two.
      [&](Node begin) {
        if (side.first_hub > 0) side.top.free_piece(begin / kPieceNodes);
      });
}

}  // namespace

Labels label_tail(const RankedGraph& graph, Node first_hub, TopLabels top_in, TopLabels top_out,
                  Distance radius, unsigned threads, Control& control) {
  TailBuilder<TopLabels> builder({graph.num_nodes, graph.directed, graph.forward(), graph.backward()},
                                 first_hub, std::move(top_in), std::move(top_out), radius, threads,
                                 kAllEntries, control);
  std::vector<Side<TopLabels>>& sides = builder.run();
  Labels labels;
  labels.directed = graph.directed;
  labels.in = joined(sides[0], graph.num_nodes, threads, control);
  if (graph.directed) labels.out = joined(sides[1], graph.num_nodes, threads, control);
  return labels;
}

}  // namespace dhilgt
