#include "labels/rest.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/parallel.h"
#include "labels/row_writer.h"
#include "labels/tail_builder.h"

namespace dhilgt {
namespace {

constexpr Node kNodesPerTask = 1024;  // neighbouring nodes that belong to the same part

// The part of a level that a node belongs to.
std::size_t part_of(Node node, Node first, std::size_t num_parts) {
  return (node - first) / kNodesPerTask % num_parts;
}

// Groups by node, one read away: a test looks up one node after the other, in no order. They lie in memory that
// others hold, as mapped files do, or in pieces of its own, filled as those of GroupedLabels.
template <class Word>
class PlacedRows {
 public:
  PlacedRows() = default;
  // No groups, of nodes from 0 on.
  PlacedRows(Node num_nodes, Control& control) : places_(&control), pieces_(num_pieces(num_nodes)) {
    places_.assign(num_nodes, {nullptr, 0});
    for (Buffer<Word>& piece : pieces_) piece = Buffer<Word>(&control);
  }
  // The rows of a table from a node on.
  PlacedRows(const TopView<Word>& rows, Node first, Node num_nodes, Control& control)
      : first_(first), places_(&control, num_nodes - first) {
    for (Node node = first; node < num_nodes; ++node) {
      const std::span<const Word> row = rows.of(node);
      places_[node - first] = {row.data(), row.size()};
    }
  }

  // Sets the groups of consecutive nodes.
  void place(const TopPart<Word>& part) {
    for (std::size_t i = 0; i + 1 < part.starts.size(); ++i) {
      const Offset* start = part.starts.data() + i;
      places_[part.first - first_ + i] = {part.words.data() + start[0] * kGroupWords, (start[1] - start[0]) * kGroupWords};
    }
  }

  // As those of GroupedLabels, of the same names.
  void set_groups(Node node, std::size_t groups) { places_[node].count = groups * kGroupWords; }
  void place_piece(std::size_t piece) {
    const std::span<Place> places(places_.begin() + piece * kPieceNodes,
                                  std::min<std::size_t>(places_.size() - piece * kPieceNodes, kPieceNodes));
    std::size_t count = 0;
    for (const Place& place : places) count += place.count;
    pieces_[piece].resize(count);
    const Word* at = pieces_[piece].data();
    for (Place& place : places) {
      place.words = at;
      at += place.count;
    }
  }
  Word* writable(Node node) {
    Buffer<Word>& piece = pieces_[node / kPieceNodes];
    return piece.data() + (places_[node].words - piece.data());
  }
  void free_piece(std::size_t piece) { pieces_[piece].clear(); }

  std::span<const Word> of(Node node) const { return {places_[node - first_].words, places_[node - first_].count}; }
  void prefetch_place(Node node) const { __builtin_prefetch(&places_[node - first_]); }
  void prefetch(Node node) const { prefetch_groups(of(node)); }

 private:
  struct Place {
    const Word* words;
    std::size_t count;
  };
  Node first_ = 0;
  Buffer<Place> places_;
  std::vector<Buffer<Word>> pieces_;
};

// Hubs counted from the first of a range, cut to the range.
class HubFilter {
 public:
  HubFilter(Node first, Node last) : first_(first), last_(last) {}

  // Calls visit(distance, hub - first) for the entries of a node whose hubs are in the range.
  template <class Side, class Visit>
  void each(const Side& side, Node at, Visit&& visit) const {
    side.each_entry(at, [&](Distance distance, std::span<const Node> hubs) {
      if (hubs.front() >= last_ || hubs.back() < first_) return;  // hubs ascend
      for (const Node hub : hubs) {
        if (hub >= first_ && hub < last_) visit(distance, hub - first_);
      }
    });
  }

 private:
  const Node first_;
  const Node last_;
};

template <class Side>
PackedRows rows_of_side(const Side& side, Node first, Node last, Node num_nodes, Control& control) {
  const Node tail_nodes = num_nodes - side.first_hub;
  const HubFilter chosen(first, last);
  const Charge end_memory(control, (std::uint64_t{last - first} + 1) * 2 * sizeof(std::size_t));
  std::vector<std::size_t> ends(std::size_t{last - first} + 1, 0);
  for (Node at = 0; at < tail_nodes; ++at) {
    chosen.each(side, at, [&](Distance, Node hub) { ++ends[hub + 1]; });
  }
  std::vector<RowWriter> writers;
  RowWriter& rows = writers.emplace_back(control);
  write_rows(first, num_nodes, ends, rows, control, [&](auto&& visit) {
    for (Node at = 0; at < tail_nodes; ++at) {
      chosen.each(side, at, [&](Distance distance, Node hub) { visit(distance, at + side.first_hub, hub); });
    }
  });
  return joined_rows(writers, control);
}

LevelEntries joined_entries(std::vector<LevelEntries>& tasks, Control& control) {
  LevelEntries all{Buffer<Node>(&control), Buffer<Node>(&control), Buffer<Node>(&control)};
  for (LevelEntries& task : tasks) {
    all.nodes.append(task.nodes.data(), task.nodes.size());
    all.counts.append(task.counts.data(), task.counts.size());
    all.hubs.append(task.hubs.data(), task.hubs.size());
    all.num_candidates += task.num_candidates;
    task = {};
  }
  return all;
}

template <class Word>
class RestSearchOf final : public RestSearch {
  using Top = PlacedRows<Word>;
  using Settled = PlacedRows<Node>;
  using Builder = TailBuilder<Top, Settled>;

 public:
  RestSearchOf(const RestOfHubs& rest, const ArcsView& forward, const ArcsView& backward,
               const TopView<Word>& top_in, const TopView<Word>& top_out, Control& control)
      : rest_(rest),
        control_(control),
        tables_{top_in, top_out},
        builder_({rest.num_nodes, rest.directed, forward, backward}, rest.first,
                 rest.first == 0 ? Top() : Top(top_in, rest.first, rest.num_nodes, control),
                 rest.first == 0 || !rest.directed ? Top() : Top(top_out, rest.first, rest.num_nodes, control),
                 rest.radius, rest.threads, rest.own_entries, control) {}

  std::vector<LevelEntries> find(std::size_t part, std::size_t num_parts) const override {
    if (builder_.depth() <= Builder::template ExaminerOf<std::uint8_t>::kMaxDepth) return find_with<std::uint8_t>(part, num_parts);
    return find_with<std::uint32_t>(part, num_parts);
  }

  void add(std::span<const std::vector<LevelView>> sides) override { builder_.add_level(entries_of(sides)); }

  void take_settled(Distance distance, std::span<const std::vector<TopPart<Node>>> settled,
                    std::span<const std::vector<LevelView>> level) override {
    if (settled.size() != builder_.num_sides()) throw std::invalid_argument("settled labels have all sides");
    const std::vector<std::vector<NewEntries>> entries = entries_of(level);
    std::vector<Settled> sides;
    for (const std::vector<TopPart<Node>>& parts : settled) {
      Settled& rows = sides.emplace_back(rest_.num_nodes - rest_.first, control_);
      for (TopPart<Node> part : parts) {
        part.first -= rest_.first;
        rows.place(part);
      }
    }
    builder_.take_settled(std::move(sides), distance, entries);
  }

  void finish() override { builder_.run(); }

  std::vector<PackedRows> holders(Node first, Node last) const override {
    std::vector<PackedRows> found;
    for (const auto& side : builder_.sides()) {
      found.push_back(rows_of_side(side, first, last, rest_.num_nodes, control_));
    }
    return found;
  }

  PackedRows labels(std::size_t s, Node begin, Node end) const override {
    std::vector<RowWriter> writers;
    RowWriter& rows = writers.emplace_back(control_);
    DecodedLabel label;
    for (Node node = begin; node < end; ++node) {
      if ((node & 0xFFF) == 0) control_.check();
      label.begin(node);
      each_of_both(s, node, [&](Distance distance, const auto& hubs) {
        label.hubs.insert(label.hubs.end(), hubs.begin(), hubs.end());
        label.end_segment(distance);
      });
      rows.add(label.view());
    }
    return joined_rows(writers, control_);
  }

 private:
  // Calls visit(distance, hubs) for the entries of a node by ascending distance, those of the table first.
  template <class Visit>
  void each_of_both(std::size_t s, Node node, Visit&& visit) const {
    std::span<const Word> words;
    if (rest_.first > 0) words = tables_[s].of(node);
    auto visit_table_to = [&](Distance limit) {
      std::size_t count = 0;
      while (count < words.size() && words[count] <= limit) count += kGroupWords;
      each_group(words.first(count), visit);
      words = words.subspan(count);
    };
    if (node >= rest_.first) {
      builder_.sides()[s].each_entry(node - rest_.first, [&](Distance distance, std::span<const Node> hubs) {
        visit_table_to(distance);
        visit(distance, hubs);
      });
    }
    visit_table_to(kUnreachable);
  }

  std::vector<std::vector<NewEntries>> entries_of(std::span<const std::vector<LevelView>> sides) const {
    if (sides.size() != builder_.num_sides()) throw std::invalid_argument("a level has entries of every side");
    std::vector<std::vector<NewEntries>> level(sides.size());
    for (std::size_t s = 0; s < sides.size(); ++s) {
      for (const LevelView& part : sides[s]) {
        check(part);
        const Node* hubs = part.hubs.data();
        for (std::size_t i = 0; i < part.nodes.size(); ++i) {
          level[s].push_back({part.nodes[i], part.counts[i], hubs});
          hubs += part.counts[i];
        }
      }
    }
    return level;
  }

  template <class Mark>
  std::vector<LevelEntries> find_with(std::size_t part, std::size_t num_parts) const {
    std::vector<typename Builder::template ExaminerOf<Mark>> examiners;
    for (unsigned worker = 0; worker < rest_.threads; ++worker) {
      examiners.emplace_back(rest_.num_nodes, rest_.first, control_);
    }
    const std::size_t all_tasks = (std::size_t{rest_.num_nodes} - rest_.first + kNodesPerTask - 1) / kNodesPerTask;
    const std::size_t num_tasks = part < all_tasks ? (all_tasks - part - 1) / num_parts + 1 : 0;
    std::vector<LevelEntries> sides;
    for (std::size_t s = 0; s < builder_.num_sides(); ++s) {
      std::vector<LevelEntries> tasks(num_tasks);
      parallel_for(rest_.threads, num_tasks, 1, control_, [&](unsigned worker, std::size_t i, std::size_t) {
        const Node from = rest_.first + static_cast<Node>(part + i * num_parts) * kNodesPerTask;
        const Node to = std::min<Node>(rest_.num_nodes, from + kNodesPerTask);
        LevelEntries found{Buffer<Node>(&control_), Buffer<Node>(&control_), Buffer<Node>(&control_)};
        builder_.each_new(examiners[worker], s, from, to, [&](Node node, std::span<const Node> hubs) {
          found.nodes.push_back(node);
          found.counts.push_back(static_cast<Node>(hubs.size()));
          found.hubs.append(hubs.data(), hubs.size());
          found.num_candidates += builder_.candidates_from(s, node, hubs);
        });
        control_.entries.fetch_add(found.hubs.size(), std::memory_order_relaxed);
        tasks[i] = std::move(found);
      });
      sides.push_back(joined_entries(tasks, control_));
    }
    return sides;
  }

  // Entries may come from a damaged file; all of them are places in arrays.
  void check(const LevelView& part) const {
    if (part.nodes.size() != part.counts.size()) throw std::invalid_argument("every node has a number of hubs");
    std::size_t at = 0;
    for (std::size_t i = 0; i < part.nodes.size(); ++i) {
      const Node node = part.nodes[i];
      if (node < (i == 0 ? rest_.first : part.nodes[i - 1] + 1) || node >= rest_.num_nodes) {
        throw std::invalid_argument("nodes of a level must ascend among those that are left");
      }
      const std::size_t count = part.counts[i];
      if (count == 0 || count > part.hubs.size() - at) throw std::invalid_argument("hubs do not fit their counts");
      Node next = rest_.first;
      for (const Node hub : part.hubs.subspan(at, count)) {
        if (hub < next || hub >= node) throw std::invalid_argument("hubs of a node must ascend and outrank it");
        next = hub + 1;
      }
      at += count;
    }
    if (at != part.hubs.size()) throw std::invalid_argument("hubs do not fit their counts");
  }

  const RestOfHubs rest_;
  Control& control_;
  const TopView<Word> tables_[2];  // of all nodes, by side; the builder has the rows of those that are left
  Builder builder_;
};

}  // namespace

TopRows<Node> settled_rows(const TopPart<Node>* before, std::span<const WholeLevel> levels, Node first, Node begin,
                           Node end, Control& control) {
  struct Cursor {  // in a part of a level
    std::size_t node = 0;
    std::size_t hub = 0;
  };
  std::vector<std::vector<Cursor>> cursors;
  for (const WholeLevel& level : levels) {
    std::vector<Cursor>& of_level = cursors.emplace_back();
    for (const LevelView& part : level.parts) {
      if (part.nodes.size() != part.counts.size()) throw std::invalid_argument("every node has a number of hubs");
      const auto at = std::lower_bound(part.nodes.begin(), part.nodes.end(), begin) - part.nodes.begin();
      const std::size_t hubs = std::accumulate(part.counts.begin(), part.counts.begin() + at, std::size_t{0});
      of_level.push_back({static_cast<std::size_t>(at), hubs});
    }
  }
  TopRows<Node> rows{Buffer<Offset>(&control), Buffer<Node>(&control)};
  rows.starts.reserve_more(std::size_t{end} - begin + 1);
  rows.starts.push_back(0);
  for (Node node = begin; node < end; ++node) {
    if ((node & 0xFFF) == 0) control.check();
    if (before != nullptr) {
      const Offset* start = before->starts.data() + (node - begin);
      const std::span<const Node> words = before->words.subspan(start[0] * kGroupWords, (start[1] - start[0]) * kGroupWords);
      rows.words.append(words.data(), words.size());
    }
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const std::size_t part = part_of(node, first, levels[i].parts.size());
      const LevelView& view = levels[i].parts[part];
      Cursor& cursor = cursors[i][part];
      if (cursor.node == view.nodes.size() || view.nodes[cursor.node] != node) continue;
      const std::size_t count = view.counts[cursor.node++];
      if (count > view.hubs.size() - cursor.hub) throw std::invalid_argument("hubs do not fit their counts");
      const std::size_t at = rows.words.size();
      const std::size_t added = groups_for(count) * kGroupWords;
      rows.words.reserve_more(added);
      rows.words.resize(at + added);
      GroupWriter<Node> writer(rows.words.data() + at);
      for (std::size_t k = 0; k < count; ++k) writer.add(levels[i].distance, view.hubs[cursor.hub++]);
    }
    rows.starts.push_back(rows.words.size() / kGroupWords);
  }
  rows.words.shrink_to_fit();
  return rows;
}

template <class Word>
std::unique_ptr<RestSearch> rest_search(const RestOfHubs& rest, const ArcsView& forward,
                                        const ArcsView& backward, const TopView<Word>& top_in,
                                        const TopView<Word>& top_out, Control& control) {
  return std::make_unique<RestSearchOf<Word>>(rest, forward, backward, top_in, top_out, control);
}

template std::unique_ptr<RestSearch> rest_search(const RestOfHubs&, const ArcsView&, const ArcsView&,
                                                 const TopView<std::uint16_t>&, const TopView<std::uint16_t>&,
                                                 Control&);
template std::unique_ptr<RestSearch> rest_search(const RestOfHubs&, const ArcsView&, const ArcsView&,
                                                 const TopView<std::uint32_t>&, const TopView<std::uint32_t>&,
                                                 Control&);

}  // namespace dhilgt
