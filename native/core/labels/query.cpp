#include "labels/query.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/parallel.h"

namespace dhilgt {

Querier::Querier(const LabelSource& out_labels, const LabelSource& in_labels)
    : out_labels_(out_labels),
      in_labels_(in_labels),
      from_source_(out_labels.num_nodes(), kUnreachable) {}

void Querier::set_source(Node node) {
  if (node == source_) return;
  if (source_ != kNoNode) {
    for (const Node hub : out_labels_.of(source_, source_label_).hubs) from_source_[hub] = kUnreachable;
  }
  source_ = kNoNode;  // if the label is damaged, the next line throws, and must throw again when asked again
  out_labels_.of(node, source_label_).each_segment([&](Distance distance, std::span<const Node> hubs) {
    for (const Node hub : hubs) from_source_[hub] = distance;
  });
  source_ = node;
}

Answer Querier::to(Node target) {
  // The distance in the high half, the hub in the low half: the smallest number is the answer.
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t best = kNone;
  const Distance* const table = from_source_.data();
  in_labels_.of(target, target_label_).each_segment([&](Distance distance, std::span<const Node> hubs) {
    if (distance > best >> 32) return;
    for (const Node hub : hubs) {
      const std::uint64_t from_source = table[hub];
      const std::uint64_t answer = from_source == kUnreachable ? kNone : (from_source + distance) << 32 | hub;
      best = std::min(best, answer);
    }
  });
  if (best == kNone) return {kUnreachable, kNoNode};
  return {static_cast<Distance>(best >> 32), static_cast<Node>(best)};
}

namespace {

// Positions of the pairs in order of their sources, so that the table of each source is made once.
std::vector<std::uint64_t> by_source(std::span<const Node> sources, Node num_nodes) {
  std::vector<std::uint64_t> order(sources.size());
  if (sources.size() < num_nodes / 8) {
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
      return sources[a] != sources[b] ? sources[a] < sources[b] : a < b;
    });
    return order;
  }
  std::vector<std::uint64_t> start(std::size_t{num_nodes} + 1, 0);
  for (const Node source : sources) ++start[std::size_t{source} + 1];
  for (std::size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  for (std::size_t i = 0; i < sources.size(); ++i) order[start[sources[i]]++] = i;
  return order;
}

}  // namespace

void answer_pairs(const LabelSource& out_labels, const LabelSource& in_labels,
                  std::span<const Node> sources, std::span<const Node> targets,
                  std::span<Distance> distances, std::span<Node> hubs, unsigned threads,
                  Control& control) {
  if (sources.empty()) return;
  const std::vector<std::uint64_t> order = by_source(sources, out_labels.num_nodes());
  constexpr std::size_t kChunk = 256;  // pairs; with fewer, a second thread costs more than it saves
  std::vector<std::unique_ptr<Querier>> queriers(std::max(1u, threads));
  parallel_for(threads, order.size(), kChunk, control, [&](unsigned worker, std::size_t begin, std::size_t end) {
    if (!queriers[worker]) queriers[worker] = std::make_unique<Querier>(out_labels, in_labels);
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t at = order[i];
      if (out_labels.in_memory != nullptr && i + 4 < end) {  // labels are scattered in memory
        const LabelView next = in_labels.in_memory->of(targets[order[i + 4]]);
        const char* line = reinterpret_cast<const char*>(next.hubs.data());
        for (std::size_t b = 0; b < std::min<std::size_t>(next.hubs.size_bytes(), 1024); b += 64) {
          __builtin_prefetch(line + b);
        }
      }
      queriers[worker]->set_source(sources[at]);
      const Answer answer = queriers[worker]->to(targets[at]);
      distances[at] = answer.distance;
      if (!hubs.empty()) hubs[at] = answer.hub;
    }
    control.done.fetch_add(end - begin, std::memory_order_relaxed);
  });
}

void answer_matrix(const LabelSource& out_labels, const LabelSource& in_labels,
                   std::span<const Node> nodes, std::span<Distance> distances, unsigned threads,
                   Control& control) {
  const std::size_t k = nodes.size();
  std::vector<std::unique_ptr<Querier>> queriers(std::max(1u, threads));
  parallel_for(threads, k, 1, control, [&](unsigned worker, std::size_t row, std::size_t) {
    if (!queriers[worker]) queriers[worker] = std::make_unique<Querier>(out_labels, in_labels);
    queriers[worker]->set_source(nodes[row]);
    for (std::size_t column = 0; column < k; ++column) {
      distances[row * k + column] = queriers[worker]->to(nodes[column]).distance;
    }
    control.done.fetch_add(k, std::memory_order_relaxed);
  });
}

}  // namespace dhilgt
