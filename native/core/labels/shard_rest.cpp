// search_rest: the entries of all hubs from a rank on.
#include <span>
#include <vector>

#include "labels/row_writer.h"
#include "labels/shards.h"
#include "labels/slice_writer.h"
#include "labels/tail_builder.h"

namespace dhilgt {
namespace {

// Calls visit(distance, node, hub - first_hub) for all entries, by distance, node, hub. A level goes
// through the nodes that have entries of its distance or farther ones.
template <class Top, class Visit>
void each_tail_entry(const Side<Top>& side, Buffer<Node>& left, Buffer<std::uint32_t>& places, Visit&& visit) {
  const std::size_t tail_nodes = places.size();
  left.resize(0);
  for (Node at = 0; at < tail_nodes; ++at) {
    places[at] = 0;
    if (!side.settled.of(at).empty()) left.push_back(at);
  }
  for (Distance distance = 1; !left.empty(); ++distance) {
    std::size_t kept = 0;
    for (const Node at : left) {
      const std::span<const Node> words = side.settled.of(at);
      std::size_t place = places[at];
      const std::size_t begin = place;
      while (place < words.size() && words[place] == distance) place += kGroupWords;
      each_group(words.subspan(begin, place - begin), [&](Distance, std::span<const Node> hubs) {
        for (const Node hub : hubs) visit(distance, at + side.first_hub, hub - side.first_hub);
      });
      places[at] = static_cast<std::uint32_t>(place);
      if (place < words.size()) left[kept++] = at;
    }
    left.resize(kept);
  }
}

template <class Top>
HolderRows rows_of_side(const Side<Top>& side, Node num_nodes, Control& control) {
  const Node tail_nodes = num_nodes - side.first_hub;
  const Charge end_memory(control, (std::uint64_t{tail_nodes} + 1) * 2 * sizeof(std::size_t));
  std::vector<std::size_t> ends(std::size_t{tail_nodes} + 1, 0);
  for (Node at = 0; at < tail_nodes; ++at) {
    each_group(side.settled.of(at), [&](Distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) ++ends[hub - side.first_hub + 1];
    });
  }
  std::vector<RowWriter> writers;
  RowWriter& rows = writers.emplace_back(control);
  Buffer<Node> left(&control);
  Buffer<std::uint32_t> places(&control, tail_nodes);
  write_rows(side.first_hub, num_nodes, ends, rows, control,
             [&](auto&& visit) { each_tail_entry(side, left, places, visit); });
  return joined_rows(writers, control);
}

template <class Top>
Slices slices_of_side(const Side<Top>& side, std::span<const Node> bounds, Control& control) {
  std::vector<SliceWriter> writers;
  SliceWriter& out = writers.emplace_back(bounds, 0, bounds.size() - 1, control);
  DecodedLabel label;
  for (Node node = side.first_hub; node < bounds.back(); ++node) {
    if ((node & 0xFFF) == 0) control.check();
    const std::span<const Node> words = side.settled.of(node - side.first_hub);
    if (words.empty()) continue;
    label.hubs.assign(1, 0);
    label.segments.assign(1, {0, 1});
    each_group(words, [&](Distance distance, std::span<const Node> hubs) {
      for (const Node hub : hubs) label.hubs.push_back(hub - side.first_hub);
      if (label.segments.back().distance != distance) label.segments.push_back({distance, 0});
      label.segments.back().end = static_cast<Node>(label.hubs.size());
    });
    out.add(node, label.view());
  }
  out.close();
  return SliceWriter::joined(writers, control);
}

}  // namespace

template <class Word>
std::vector<HubShard> search_rest(const RestOfHubs& rest, const ArcsView& forward, const ArcsView& backward,
                                  const TopView<Word>& top_in, const TopView<Word>& top_out,
                                  std::span<const Node> bounds, Control& control) {
  using Top = TopView<Word>;
  TailBuilder<Top> builder({rest.num_nodes, rest.directed, forward, backward}, rest.first, top_in, top_out,
                           rest.radius, rest.threads, control);
  std::vector<HubShard> shards;
  for (const Side<Top>& side : builder.run()) {
    shards.push_back({rows_of_side(side, rest.num_nodes, control), slices_of_side(side, bounds, control)});
  }
  return shards;
}

template std::vector<HubShard> search_rest(const RestOfHubs&, const ArcsView&, const ArcsView&,
                                           const TopView<std::uint16_t>&, const TopView<std::uint16_t>&,
                                           std::span<const Node>, Control&);
template std::vector<HubShard> search_rest(const RestOfHubs&, const ArcsView&, const ArcsView&,
                                           const TopView<std::uint32_t>&, const TopView<std::uint32_t>&,
                                           std::span<const Node>, Control&);

}  // namespace dhilgt
