#include "labels/pll.h"

#include <algorithm>
#include <vector>

#include "base/types.h"

namespace dhilgt {
namespace {

// Four bytes per entry, one of them for the distance: for graphs whose sizes and distances fit.
struct NarrowEntry {
  using Mark = std::uint8_t;
  static constexpr Mark kNotAHub = 255;
  static constexpr Node kMaxNodes = 1u << 24;
  static constexpr Distance kMaxDepth = 254;
  std::uint32_t packed;
  static NarrowEntry make(Node hub, Distance distance) { return {hub << 8 | distance}; }
  Node hub() const { return packed >> 8; }
  Distance distance() const { return packed & 255u; }
};

struct WideEntry {
  using Mark = std::uint32_t;
  static constexpr Mark kNotAHub = 0x7FFFFFFFu;  // the sum with any distance is larger than any distance
  static constexpr Distance kMaxDepth = kNotAHub - 1;
  Node hub_rank;
  Distance hops;
  static WideEntry make(Node hub, Distance distance) { return {hub, distance}; }
  Node hub() const { return hub_rank; }
  Distance distance() const { return hops; }
};

struct TooDeep {};  // thrown when a distance does not fit a NarrowEntry

template <class Entry>
using EntryLists = std::vector<Buffer<Entry>>;  // per node, hubs ascending

// A pruned search. Its arrays are reused from root to root; only the touched elements are reset.
template <class Entry>
struct Search {
  using Mark = typename Entry::Mark;
  Buffer<Mark> root_distance;  // the label of the root as a table by hub
  Buffer<std::uint8_t> visited;
  Buffer<Node> queue;

  Search(Node num_nodes, Control& control)
      : root_distance(&control), visited(&control), queue(&control, num_nodes) {
    root_distance.assign(num_nodes, Entry::kNotAHub);
    visited.assign(num_nodes, 0);
  }

  // Adds `root` to the label of every node that it reaches along `arcs`, unless a better hub covers it.
  // `root_label` is the root's label in the opposite direction.
  void run(Node root, const Adjacency& arcs, const Buffer<Entry>& root_label,
           EntryLists<Entry>& labels, Distance radius, Control& control) {
    for (const Entry& entry : root_label) {
      root_distance[entry.hub()] = static_cast<Mark>(entry.distance());
    }
    std::size_t head = 0;
    std::size_t tail = 0;
    std::size_t level_end = 1;
    Distance depth = 0;
    queue[tail++] = root;
    visited[root] = 1;
    std::uint64_t num_added = 0;
    while (head < tail) {
      if (head == level_end) {
        level_end = tail;
        if (++depth > Entry::kMaxDepth) throw TooDeep();
        control.check();
      }
      const Node node = queue[head++];
      if (is_covered(labels[node], depth)) continue;
      labels[node].push_back(Entry::make(root, depth));
      ++num_added;
      if (depth == radius) continue;
      const std::span<const Node> neighbours = arcs.of(node);
      for (std::size_t i = neighbours.size(); i-- > 0 && neighbours[i] > root;) {  // only nodes that root outranks
        const Node next = neighbours[i];
        if (!visited[next]) {
          visited[next] = 1;
          queue[tail++] = next;
        }
      }
    }
    for (std::size_t i = 0; i < tail; ++i) visited[queue[i]] = 0;
    for (const Entry& entry : root_label) root_distance[entry.hub()] = Entry::kNotAHub;
    control.entries.fetch_add(num_added, std::memory_order_relaxed);
  }

 private:
  bool is_covered(const Buffer<Entry>& label, Distance depth) const {
    for (const Entry& entry : label) {
      if (root_distance[entry.hub()] + entry.distance() <= depth) return true;
    }
    return false;
  }
};

// Regroups lists sorted by hub into segments by distance; the sort is stable, so hubs still ascend.
template <class Entry>
LabelSet group_by_distance(EntryLists<Entry>& lists, Control& control) {
  const std::size_t n = lists.size();
  LabelSet set(static_cast<Node>(n), control);
  Offset total = 0;
  for (std::size_t v = 0; v < n; ++v) {
    set.entry_offsets[v] = total;
    total += lists[v].size();
  }
  set.entry_offsets[n] = total;
  set.hubs.resize(total);
  std::vector<Entry> sorted;
  for (std::size_t v = 0; v < n; ++v) {
    set.segment_offsets[v] = set.segments.size();
    sorted.assign(lists[v].begin(), lists[v].end());
    lists[v].clear();
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Entry& a, const Entry& b) { return a.distance() < b.distance(); });
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      set.hubs[set.entry_offsets[v] + i] = sorted[i].hub();
      if (i + 1 == sorted.size() || sorted[i + 1].distance() != sorted[i].distance()) {
        set.segments.push_back({sorted[i].distance(), static_cast<Node>(i + 1)});
      }
    }
    if ((v & 0xFFF) == 0) control.check();
  }
  set.segment_offsets[n] = set.segments.size();
  set.segments.shrink_to_fit();
  return set;
}

template <class Entry>
EntryLists<Entry> empty_lists(Node n, Control& control) {
  EntryLists<Entry> lists;
  lists.reserve(n);
  for (Node v = 0; v < n; ++v) lists.emplace_back(&control);
  return lists;
}

template <class Entry>
Labels label_by_roots(const RankedGraph& graph, Distance radius, Control& control) {
  const Node n = graph.num_nodes;
  control.total.store(n);
  const Charge lists(control, (graph.directed ? 2 : 1) * std::uint64_t{n} * sizeof(Buffer<Entry>));
  EntryLists<Entry> in = empty_lists<Entry>(n, control);
  EntryLists<Entry> out = empty_lists<Entry>(graph.directed ? n : 0, control);
  Search<Entry> search(n, control);
  for (Node root = 0; root < n; ++root) {
    if (graph.directed) {
      search.run(root, graph.forward(), out[root], in, radius, control);
      search.run(root, graph.backward(), in[root], out, radius, control);
    } else {
      search.run(root, graph.forward(), in[root], in, radius, control);
    }
    control.done.store(root + 1, std::memory_order_relaxed);
  }
  Labels labels;
  labels.directed = graph.directed;
  labels.in = group_by_distance(in, control);
  if (graph.directed) labels.out = group_by_distance(out, control);
  return labels;
}

}  // namespace

Labels label_by_pll(const RankedGraph& graph, Distance radius, Control& control) {
  struct ReturnMemory {  // on success and on failure
    ~ReturnMemory() { return_free_memory(); }
  } return_memory;
  if (graph.num_nodes <= NarrowEntry::kMaxNodes) {
    try {
      return label_by_roots<NarrowEntry>(graph, radius, control);
    } catch (const TooDeep&) {  // long paths show up at the first roots, so little work is lost
      control.entries.store(0);
    }
  }
  return label_by_roots<WideEntry>(graph, radius, control);
}

}  // namespace dhilgt
