#include "labels/tail.h"

#include <cstring>
#include <limits>
#include <vector>

#include "labels/gather.h"
#include "base/parallel.h"

namespace dhilgt {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Entries of one node at one distance that are not yet settled; chained by ascending distance.
struct TailSegment {
  const Node* hubs;
  std::uint32_t count;
  Distance distance;
  std::uint32_t next;
};

// Memory that is handed out in runs and never moves.
class Arena {
 public:
  explicit Arena(Control& control) : control_(control) {}
  const Node* keep(const Node* values, std::size_t count) {
    if (blocks_.empty() || blocks_.back().size() + count > blocks_.back().capacity()) {
      if (!blocks_.empty() && block_size_ < kLargestBlock) block_size_ *= 2;
      blocks_.emplace_back(&control_);
      blocks_.back().room_for(std::max(count, block_size_));
    }
    blocks_.back().append(values, count);
    return blocks_.back().end() - count;
  }
  void clear() { blocks_.clear(); }

 private:
  static constexpr std::size_t kLargestBlock = 1 << 18;
  Control& control_;
  std::size_t block_size_ = 1 << 10;
  std::vector<Buffer<Node>> blocks_;
};

using TopLabels = GroupedLabels<std::uint16_t>;
using TailLabels = GroupedLabels<std::uint32_t>;

// One direction of the labels while they grow. Most entries lie settled, a label in one stretch of memory;
// those of the last levels hang in chains until there are enough of them to be worth settling.
struct Side {
  const Adjacency& pull;  // where a node's candidates come from
  const Adjacency& push;  // who takes candidates from a node
  TopLabels top;
  TailLabels settled;
  Buffer<TailSegment> chains;
  Buffer<std::uint32_t> first_chained;  // per tail node
  Buffer<std::uint32_t> last_chained;
  std::uint64_t num_settled = 0;  // entries
  std::uint64_t num_chained = 0;
  // entries of the level before, what the next level is made from
  struct Fresh {
    const Node* hubs;
    std::uint32_t count;
  };
  Buffer<Fresh> fresh;       // per tail node
  Buffer<Node> fresh_nodes;  // those with any

  Side(const Adjacency& pull_arcs, const Adjacency& push_arcs, TopLabels top_labels, Node tail_nodes,
       Control& control)
      : pull(pull_arcs),
        push(push_arcs),
        top(std::move(top_labels)),
        settled(tail_nodes, control),
        chains(&control),
        first_chained(&control),
        last_chained(&control),
        fresh(&control),
        fresh_nodes(&control) {
    first_chained.assign(tail_nodes, kNone);
    last_chained.assign(tail_nodes, kNone);
    fresh.assign(tail_nodes, {nullptr, 0});
  }

  // Calls visit(segment) for what hangs in the node's chain.
  template <class Visit>
  void each_chained(Node at, Visit&& visit) const {
    if (num_chained == 0) return;  // the usual case, and it spares a look far away
    for (std::uint32_t link = first_chained[at]; link != kNone; link = chains[link].next) {
      visit(chains[link]);
    }
  }

  // Moves the chains into the settled labels, piece by piece. The fresh hubs must stay where they are:
  // the next level reads them.
  void settle(unsigned threads, Control& control) {
    const auto nodes = static_cast<Node>(first_chained.size());
    TailLabels next(nodes, control);
    parallel_for(threads, num_pieces(nodes), 1, control, [&](unsigned, std::size_t piece, std::size_t) {
      const auto begin = static_cast<Node>(piece * kPieceNodes);
      const Node end = std::min<Node>(nodes, begin + kPieceNodes);
      for (Node at = begin; at < end; ++at) {
        std::size_t groups = settled.of(at).size() / kGroupWords;
        each_chained(at, [&](const TailSegment& segment) { groups += groups_for(segment.count); });
        next.set_groups(at, groups);
      }
      next.place_piece(piece);
      for (Node at = begin; at < end; ++at) {
        const std::span<const Node> before = settled.of(at);
        Node* words = next.writable(at);
        std::copy(before.begin(), before.end(), words);
        GroupWriter<Node> writer(words + before.size());
        each_chained(at, [&](const TailSegment& segment) {
          for (std::uint32_t i = 0; i < segment.count; ++i) writer.add(segment.distance, segment.hubs[i]);
        });
        first_chained[at] = last_chained[at] = kNone;
      }
      settled.free_piece(piece);
    });
    settled = std::move(next);
    chains.resize(0);
    num_settled += num_chained;
    num_chained = 0;
  }
};

struct Found {  // new entries of one node, not yet visible to others
  Node node;
  std::uint32_t count;
  const Node* hubs;
};

// Seven tests a branch: nearly all candidates that get here survive, so an early exit seldom pays.
template <class Word, class Mark>
bool any_within(std::span<const Word> words, const Mark* marks, Distance depth) {
  for (const Word *group = words.data(), *end = group + words.size(); group < end; group += kGroupWords) {
    if (group[0] >= depth) return false;  // groups ascend by distance
    const Mark limit = static_cast<Mark>(depth - group[0]);
    Mark nearest = marks[group[1]];
    for (std::size_t i = 2; i < kGroupWords; ++i) nearest = std::min(nearest, marks[group[i]]);
    if (nearest <= limit) return true;
  }
  return false;
}

// A worker's view of one node: its own label spread out by hub. `Mark` is a byte while distances
// allow it, because the table is then small enough for the cache.
template <class Mark>
class Examiner {
 public:
  static constexpr Mark kFar = std::numeric_limits<Mark>::max();
  static constexpr Mark kCandidate = kFar - 1;
  static constexpr Distance kMaxDepth = kCandidate - 1;

  Examiner(Node num_nodes, Node first_hub, Control& control)
      : first_hub_(first_hub), marks_(&control), candidates_(&control) {
    marks_.assign(num_nodes, kFar);
  }

  // New hubs of `node` at `depth`; the result is valid until the next call.
  std::span<const Node> find(Node node, Distance depth, const Side& side, const Side& opposite) {
    collect_offers(node, side);
    if (offers_.empty()) return {};
    mark_label(node, side, [](Distance distance) { return static_cast<Mark>(distance); });
    candidates_.resize(0);
    for (const Side::Fresh& offer : offers_) {
      for (std::uint32_t i = 0; i < offer.count && offer.hubs[i] < node; ++i) {
        const Node hub = offer.hubs[i];
        if (marks_[hub] == kFar) {
          marks_[hub] = kCandidate;
          candidates_.push_back(hub);
          prefetch_place(hub, opposite);
        }
      }
    }
    const std::size_t first = std::min(kAhead, candidates_.size());
    for (std::size_t i = 0; i < first; ++i) prefetch_label(candidates_[i], opposite);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (i + kAhead < candidates_.size()) prefetch_label(candidates_[i + kAhead], opposite);
      const Node hub = candidates_[i];
      const bool covered = is_covered(hub, depth, opposite);
      marks_[hub] = kFar;
      // A candidate slot already passed is free: survivors move to the front.
      if (!covered) candidates_[kept++] = hub;
    }
    mark_label(node, side, [](Distance) { return kFar; });
    std::sort(candidates_.begin(), candidates_.begin() + kept);
    return {candidates_.data(), kept};
  }

 private:
  static constexpr std::size_t kAhead = 6;

  // What the neighbours found in the level before. All of it lies far apart in memory, so each step of
  // the way is asked for before the first one is used.
  void collect_offers(Node node, const Side& side) {
    const std::span<const Node> neighbours = tail_of(side.pull.of(node));
    for (const Node neighbour : neighbours) __builtin_prefetch(&side.fresh[neighbour - first_hub_]);
    offers_.clear();
    for (const Node neighbour : neighbours) {
      const Side::Fresh& offer = side.fresh[neighbour - first_hub_];
      if (offer.count == 0) continue;
      __builtin_prefetch(offer.hubs);
      offers_.push_back(offer);
    }
    std::erase_if(offers_, [&](const Side::Fresh& offer) { return offer.hubs[0] >= node; });
  }

  std::span<const Node> tail_of(std::span<const Node> neighbours) const {
    const auto from = std::lower_bound(neighbours.begin(), neighbours.end(), first_hub_);
    return neighbours.subspan(static_cast<std::size_t>(from - neighbours.begin()));
  }

  // Sets the mark of every known hub of a node: to its distance, or back to far.
  template <class Value>
  void mark_label(Node node, const Side& side, Value&& value) {
    auto mark_group = [&](Distance distance, auto hubs) {
      for (const auto hub : hubs) marks_[hub] = value(distance);
    };
    if (first_hub_ > 0) each_group(side.top.of(node), mark_group);
    each_group(side.settled.of(node - first_hub_), mark_group);
    side.each_chained(node - first_hub_, [&](const TailSegment& segment) {
      mark_group(segment.distance, std::span(segment.hubs, segment.count));
    });
  }

  // Is there a better hub w with d(hub, w) + d(w, node) <= depth?
  bool is_covered(Node hub, Distance depth, const Side& opposite) const {
    if (first_hub_ > 0 && any_within(opposite.top.of(hub), marks_.data(), depth)) return true;
    if (any_within(opposite.settled.of(hub - first_hub_), marks_.data(), depth)) return true;
    bool covered = false;
    opposite.each_chained(hub - first_hub_, [&](const TailSegment& segment) {
      for (std::uint32_t i = 0; i < segment.count && segment.distance < depth; ++i) {
        covered |= marks_[segment.hubs[i]] <= static_cast<Mark>(depth - segment.distance);
      }
    });
    return covered;
  }

  // A label is two jumps away: where it lies is asked for when a candidate shows up, its first lines
  // some candidates before it is read.
  void prefetch_place(Node hub, const Side& opposite) const {
    if (first_hub_ > 0) opposite.top.prefetch_place(hub);
    opposite.settled.prefetch_place(hub - first_hub_);
  }
  void prefetch_label(Node hub, const Side& opposite) const {
    if (first_hub_ > 0) opposite.top.prefetch(hub);
    opposite.settled.prefetch(hub - first_hub_);
  }

  Node first_hub_;
  Buffer<Mark> marks_;  // distance from the node, by hub
  std::vector<Side::Fresh> offers_;
  Buffer<Node> candidates_;
};

class TailBuilder {
 public:
  TailBuilder(const RankedGraph& graph, Node first_hub, TopLabels top_in, TopLabels top_out,
              unsigned threads, Control& control)
      : graph_(graph),
        first_hub_(first_hub),
        tail_nodes_(graph.num_nodes - first_hub),
        threads_(threads),
        control_(control),
        receivers_(&control),
        stamp_(&control) {
    sides_.reserve(2);
    sides_.emplace_back(graph.backward(), graph.forward(), std::move(top_in), tail_nodes_, control);
    if (graph.directed) {
      sides_.emplace_back(graph.forward(), graph.backward(), std::move(top_out), tail_nodes_, control);
    }
    for (unsigned worker = 0; worker < threads; ++worker) arenas_.emplace_back(control);
    found_.resize(threads);
    stamp_.assign(tail_nodes_, 0);
  }

  Labels run() {
    start();
    // Both directions of a level are found before either is published: each prunes with the other's
    // labels of smaller distances only.
    Distance depth = 2;
    depth = run_levels<std::uint8_t>(depth);
    if (any_fresh()) run_levels<std::uint32_t>(depth);
    stamp_.clear();
    receivers_.clear();
    Labels labels;
    labels.directed = graph_.directed;
    labels.in = finish(sides_[0]);
    if (graph_.directed) labels.out = finish(sides_[1]);
    return labels;
  }

 private:
  // Distance 1: every better neighbour is a hub, no test needed.
  void start() {
    std::vector<Node> hubs;
    for (Side& side : sides_) {
      for (Node node = first_hub_; node < graph_.num_nodes; ++node) {
        if ((node & 0xFFF) == 0) control_.check();
        hubs.clear();
        for (const Node neighbour : side.pull.of(node)) {
          if (neighbour >= node) break;
          if (neighbour >= first_hub_) hubs.push_back(neighbour);
        }
        if (!hubs.empty()) {
          const Node* kept = arenas_[0].keep(hubs.data(), hubs.size());
          publish(side, {node, static_cast<std::uint32_t>(hubs.size()), kept}, 1);
        }
      }
    }
    settle_if_worth_it();
  }

  // Settling copies everything, so it waits for chains of a fair share: cost stays linear in the entries.
  void settle_if_worth_it() {
    std::uint64_t chained = 0;
    std::uint64_t settled = 0;
    for (const Side& side : sides_) {
      chained += side.num_chained;
      settled += side.num_settled;
    }
    if (chained * 16 < settled) return;
    for (Side& side : sides_) side.settle(threads_, control_);
    // Only the fresh hubs are still read from the arenas: those of the level just found.
    old_arenas_.clear();
    old_arenas_.swap(arenas_);
    for (unsigned worker = 0; worker < threads_; ++worker) arenas_.emplace_back(control_);
  }

  bool any_fresh() const {
    for (const Side& side : sides_) {
      if (!side.fresh_nodes.empty()) return true;
    }
    return false;
  }

  template <class Mark>
  Distance run_levels(Distance depth) {
    std::vector<Examiner<Mark>> examiners;
    for (unsigned worker = 0; worker < threads_; ++worker) {
      examiners.emplace_back(graph_.num_nodes, first_hub_, control_);
    }
    std::vector<std::vector<Found>> found(sides_.size());
    for (; any_fresh() && depth <= Examiner<Mark>::kMaxDepth; ++depth) {
      control_.check();
      for (std::size_t s = 0; s < sides_.size(); ++s) {
        const Side& side = sides_[s];
        const Side& opposite = sides_[sides_.size() - 1 - s];
        collect_receivers(side);
        find_level(examiners, side, opposite, depth, found[s]);
      }
      for (std::size_t s = 0; s < sides_.size(); ++s) {
        Side& side = sides_[s];
        for (const Node node : side.fresh_nodes) side.fresh[node - first_hub_].count = 0;
        side.fresh_nodes.resize(0);
        for (const Found& item : found[s]) publish(side, item, depth);
        found[s].clear();
      }
      settle_if_worth_it();
    }
    return depth;
  }

  // Nodes with a neighbour that gained entries in the level before.
  void collect_receivers(const Side& side) {
    receivers_.resize(0);
    ++stamp_now_;
    for (const Node node : side.fresh_nodes) {
      const Node best_hub = side.fresh[node - first_hub_].hubs[0];
      const std::span<const Node> takers = side.push.of(node);
      for (std::size_t i = takers.size(); i-- > 0 && takers[i] > best_hub;) {
        std::uint32_t& stamp = stamp_[takers[i] - first_hub_];
        if (stamp != stamp_now_) {
          stamp = stamp_now_;
          receivers_.push_back(takers[i]);
        }
      }
    }
  }

  template <class Mark>
  void find_level(std::vector<Examiner<Mark>>& examiners, const Side& side, const Side& opposite,
                  Distance depth, std::vector<Found>& found) {
    const unsigned threads = receivers_.size() < kParallelReceivers ? 1 : threads_;
    parallel_for(threads, receivers_.size(), 128, control_,
                 [&](unsigned worker, std::size_t begin, std::size_t end) {
                   std::uint64_t entries = 0;
                   for (std::size_t i = begin; i < end; ++i) {
                     const std::span<const Node> hubs =
                         examiners[worker].find(receivers_[i], depth, side, opposite);
                     if (hubs.empty()) continue;
                     const Node* kept = arenas_[worker].keep(hubs.data(), hubs.size());
                     found_[worker].push_back(
                         {receivers_[i], static_cast<std::uint32_t>(hubs.size()), kept});
                     entries += hubs.size();
                   }
                   control_.entries.fetch_add(entries, std::memory_order_relaxed);
                 });
    for (std::vector<Found>& part : found_) {
      found.insert(found.end(), part.begin(), part.end());
      part.clear();
    }
  }

  void publish(Side& side, const Found& item, Distance depth) {
    const Node at = item.node - first_hub_;
    const auto index = static_cast<std::uint32_t>(side.chains.size());
    side.chains.push_back({item.hubs, item.count, depth, kNone});
    if (side.last_chained[at] == kNone) {
      side.first_chained[at] = index;
    } else {
      side.chains[side.last_chained[at]].next = index;
    }
    side.last_chained[at] = index;
    side.num_chained += item.count;
    side.fresh[at] = {item.hubs, item.count};
    side.fresh_nodes.push_back(item.node);
  }

  // Top and tail entries of each node, merged by distance, with the self entry in front.
  LabelSet finish(Side& side) {
    side.settle(threads_, control_);
    side.chains.clear();
    const Node n = graph_.num_nodes;
    LabelSet set(n, control_);
    set.entry_offsets[0] = set.segment_offsets[0] = 0;
    parallel_for(threads_, n, kPieceNodes, control_, [&](unsigned, std::size_t begin, std::size_t end) {
      for (std::size_t v = begin; v < end; ++v) {
        Offset entries = 0;
        Offset segments = 0;
        Distance last = kUnreachable;
        merge(side, static_cast<Node>(v), [&](Distance distance, auto hubs) {
          entries += hubs.size();
          segments += distance != last;
          last = distance;
        });
        set.entry_offsets[v + 1] = entries;
        set.segment_offsets[v + 1] = segments;
      }
    });
    sum_up(set.entry_offsets);
    sum_up(set.segment_offsets);
    set.hubs.resize(set.entry_offsets[n]);
    set.segments.resize(set.segment_offsets[n]);
    parallel_for(threads_, n, kPieceNodes, control_, [&](unsigned, std::size_t begin, std::size_t end) {
      for (std::size_t v = begin; v < end; ++v) {
        Node* const first = set.hubs.data() + set.entry_offsets[v];
        Node* hub = first;
        Segment* segment = set.segments.data() + set.segment_offsets[v] - 1;
        Distance last = kUnreachable;
        merge(side, static_cast<Node>(v), [&](Distance distance, auto hubs) {
          hub = std::copy(hubs.begin(), hubs.end(), hub);
          if (distance != last) ++segment;
          last = distance;
          *segment = {distance, static_cast<Node>(hub - first)};
        });
      }
      // The final labels fill while their sources empty: the peak stays near the larger of the two.
      if (first_hub_ > 0) side.top.free_piece(begin / kPieceNodes);
    });
    return set;
  }

  // Calls visit(distance, hubs) in label order: by distance, the better hubs of the planes first.
  template <class Visit>
  void merge(const Side& side, Node node, Visit&& visit) const {
    const Node self = node;
    visit(Distance{0}, std::span(&self, 1));
    std::span<const Node> tail;
    if (node >= first_hub_) tail = side.settled.of(node - first_hub_);
    auto visit_tail_before = [&](Distance limit) {
      std::size_t words = 0;
      while (words < tail.size() && tail[words] < limit) words += kGroupWords;
      each_group(tail.first(words), visit);
      tail = tail.subspan(words);
    };
    if (first_hub_ > 0) {
      each_group(side.top.of(node), [&](Distance distance, auto hubs) {
        visit_tail_before(distance);
        visit(distance, hubs);
      });
    }
    visit_tail_before(kUnreachable);
  }

  static constexpr std::size_t kParallelReceivers = 1024;

  const RankedGraph& graph_;
  const Node first_hub_;
  const Node tail_nodes_;
  const unsigned threads_;
  Control& control_;
  std::vector<Side> sides_;
  std::vector<Arena> arenas_;
  std::vector<Arena> old_arenas_;  // hold the fresh hubs after a settling
  std::vector<std::vector<Found>> found_;
  Buffer<Node> receivers_;
  Buffer<std::uint32_t> stamp_;
  std::uint32_t stamp_now_ = 0;
};

}  // namespace

Labels label_tail(const RankedGraph& graph, Node first_hub, TopLabels top_in, TopLabels top_out,
                  unsigned threads, Control& control) {
  return TailBuilder(graph, first_hub, std::move(top_in), std::move(top_out), threads, control).run();
}

}  // namespace dhilgt
