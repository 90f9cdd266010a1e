// All hubs from a rank on at once, level by level (tail.h): far less work than hub by hub. Processes can share
// a level: each finds the entries of a part of the nodes, and takes those of all parts before the next level.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "graph/ranked_graph.h"
#include "labels/shards.h"
#include "labels/top_view.h"

namespace dhilgt {

struct RestOfHubs {
  Node num_nodes = 0;
  Node first = 0;  // rank of the first hub
  bool directed = false;
  Distance radius = kUnreachable;
  unsigned threads = 1;
  std::uint64_t own_entries = 0;  // with no more, they are settled in the process's own memory
};

// Entries of one distance, by ascending nodes: for each node, the number of its hubs, which ascend too.
struct LevelEntries {
  Buffer<Node> nodes;
  Buffer<Node> counts;
  Buffer<Node> hubs;
  std::uint64_t num_candidates = 0;  // at most so many are tested for them in the level that follows
};
struct LevelView {
  std::span<const Node> nodes;
  std::span<const Node> counts;
  std::span<const Node> hubs;
};

class RestSearch {
 public:
  virtual ~RestSearch() = default;

  // Returns the entries of the next level that nodes of one of `num_parts` parts have, in-labels first. Every part
  // has nodes of all ranks, as the work of a node depends on its rank.
  virtual std::vector<LevelEntries> find(std::size_t part, std::size_t num_parts) const = 0;
  // Takes all entries of the next level: for each side, those of every part. Hubs stay where they are and must
  // outlive this object. Throws std::invalid_argument if they are no entries.
  virtual void add(std::span<const std::vector<LevelView>> sides) = 0;
  // Takes settled labels: for each side, the entries of all nodes up to a distance as groups, in parts by ascending
  // nodes, and those of that distance as for add(). The memory stays where it is; hubs are ranks.
  virtual void take_settled(Distance distance, std::span<const std::vector<TopPart<Node>>> settled,
                            std::span<const std::vector<LevelView>> level) = 0;
  // Finds the entries of all levels that are left.
  virtual void finish() = 0;
  // After finish(): the inverted labels of the hubs [first, last), in-labels first, and the labels of the nodes
  // [begin, end) of one side, those of the table and those found.
  virtual std::vector<PackedRows> holders(Node first, Node last) const = 0;
  virtual PackedRows labels(std::size_t side, Node begin, Node end) const = 0;
};

// A level with all its parts, of one side.
struct WholeLevel {
  Distance distance;
  std::vector<LevelView> parts;
};

// The entries of the nodes [begin, end) as groups: those of `before`, if any, which are those of the same nodes, and
// of levels by ascending distance that follow.
TopRows<Node> settled_rows(const TopPart<Node>* before, std::span<const WholeLevel> levels, Node first, Node begin,
                           Node end, Control& control);

// The tables hold the labels of all hubs before `first`; top_out is ignored for undirected graphs. All memory of
// the arguments must outlive the object.
template <class Word>
std::unique_ptr<RestSearch> rest_search(const RestOfHubs& rest, const ArcsView& forward,
                                        const ArcsView& backward, const TopView<Word>& top_in,
                                        const TopView<Word>& top_out, Control& control);

}  // namespace dhilgt
