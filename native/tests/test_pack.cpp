// Packing is lossless, and damaged bytes never crash.
#include "check.h"
#include "graphs.h"
#include "labels/pack.h"

namespace dhilgt {
namespace {

using namespace test;

struct Packed {
  Labels labels;
  std::vector<Offset> offsets;
  std::vector<std::uint8_t> bytes;
  PackedView view() const { return {labels.in.num_nodes(), offsets, bytes}; }
};

Packed packed(const Graph& graph) {
  Control control;
  const Ranked ranked = rank(graph, control);
  Packed result;
  result.labels = build_labels(ranked.graph, {Algorithm::automatic, 1, kPlanHubs}, control);
  result.labels.in.detach();
  result.labels.out.detach();
  const PackedLabels bytes = pack_labels(result.labels.in, 2, control);
  result.offsets.assign(bytes.offsets.begin(), bytes.offsets.end());
  result.bytes.assign(bytes.bytes.begin(), bytes.bytes.end());
  return result;
}

void packing_is_lossless() {
  for (const Graph& graph : {random_graph(5000, 15000, false, 1), path_graph(3000, 2), make_graph(1, {}, false),
                             make_graph(4, {}, false), random_graph(300, 900, true, 5)}) {
    const Packed whole = packed(graph);
    for (const unsigned threads : {1u, 3u}) {
      Control control;
      CHECK(same(unpack_labels(whole.view(), threads, control), whole.labels.in));
      const PackedLabels again = pack_labels(whole.labels.in, threads, control);
      CHECK(std::equal(again.bytes.begin(), again.bytes.end(), whole.bytes.begin(), whole.bytes.end()));
    }
    DecodedLabel label;
    for (Node v = 0; v < whole.labels.in.num_nodes(); v += 7) {
      decode_label(whole.view(), v, label);
      CHECK(entries_of(label.view()) == entries_of(whole.labels.in.of(v)));
      const RecordSize size = record_size(whole.view().record(v), whole.labels.in.num_nodes(), v);
      CHECK(size.entries == label.hubs.size() && size.segments == label.segments.size());
    }
  }
}

void records_are_gathered_in_any_order() {
  const Packed whole = packed(random_graph(500, 900, false, 7));
  const std::vector<Node> ranks{499, 3, 3, 0, 250};
  Control control;
  const PackedLabels some = gather_records(whole.view(), ranks, control);
  DecodedLabel label;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::span<const std::uint8_t> record =
        some.bytes.view().subspan(some.offsets[i], some.offsets[i + 1] - some.offsets[i]);
    decode_record(record, whole.labels.in.num_nodes(), ranks[i], label);
    CHECK(entries_of(label.view()) == entries_of(whole.labels.in.of(ranks[i])));
  }
}

// A label that decodes is safe to use, even if its content is wrong.
void check_safe(const LabelView& label, Node node, Node num_nodes) {
  CHECK(!label.hubs.empty() && label.hubs[0] == node);
  CHECK(label.segments.back().end == label.hubs.size());
  CHECK(label.hubs.size() <= num_nodes);
  Distance before = 0;
  for (std::size_t i = 1; i < label.segments.size(); ++i) {
    CHECK(label.segments[i].distance > before && label.segments[i].distance < num_nodes);
    CHECK(label.segments[i].end > label.segments[i - 1].end);
    before = label.segments[i].distance;
  }
  label.each_segment([&](Distance, std::span<const Node> hubs) {
    for (std::size_t i = 0; i < hubs.size(); ++i) CHECK(hubs[i] < num_nodes && (i == 0 || hubs[i] > hubs[i - 1]));
  });
}

void damage_is_detected_or_harmless() {
  const Packed whole = packed(random_graph(200, 600, false, 3));
  const Node n = whole.labels.in.num_nodes();
  std::size_t detected = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    check::context = "seed " + std::to_string(seed);
    KeyedRandom random(seed, 0, 0);
    Packed damaged{{}, whole.offsets, whole.bytes};
    for (std::uint64_t hits = 1 + random.below(3); hits > 0; --hits) {
      switch (random.below(4)) {
        case 0: damaged.bytes[random.below(damaged.bytes.size())] = static_cast<std::uint8_t>(random.next()); break;
        case 1: damaged.bytes[random.below(damaged.bytes.size())] ^= 0x80; break;
        case 2: damaged.offsets[random.below(n + 1)] = random.below(2) == 0 ? random.next() : random.below(damaged.bytes.size()); break;
        default: damaged.bytes.resize(1 + random.below(damaged.bytes.size())); break;
      }
    }
    const PackedView view{n, damaged.offsets, damaged.bytes};
    DecodedLabel label;
    for (Node v = 0; v < n; ++v) {
      try {
        decode_label(view, v, label);
        check_safe(label.view(), v, n);
      } catch (const BadPacking& error) {
        CHECK(error.node == v);
        ++detected;
      }
    }
  }
  CHECK(detected > 10000);
}

void each_kind_of_damage_is_reported() {
  // Records of node 0 of three: segments, then (step, count) each, then hubs.
  const std::vector<std::pair<std::vector<std::uint8_t>, std::string>> records{
      {{}, "cut short"},
      {{1, 1}, "more segments than bytes"},
      {{0x80}, "cut short"},
      {{0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, "does not fit 32 bits"},
      {{1, 0, 1, 1}, "distances do not ascend"},
      {{1, 3, 1, 1}, "distances do not ascend"},  // three nodes are at most two apart
      {{1, 1, 0}, "an empty segment"},
      {{1, 1, 3, 0, 0, 0}, "more hubs than nodes"},
      {{1, 1, 2, 0}, "more hubs than bytes"},
      {{1, 1, 1, 3}, "hub is not a node"},
      {{1, 1, 1, 1, 0}, "bytes left over"},
  };
  for (const auto& [bytes, what] : records) {
    check::context = what;
    const std::vector<Offset> offsets{0, bytes.size(), bytes.size(), bytes.size()};
    DecodedLabel label;
    try {
      decode_label({3, offsets, bytes}, 0, label);
      CHECK(false);
    } catch (const BadPacking& error) {
      CHECK(std::string(error.what()).find(what) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("packing is lossless", packing_is_lossless);
  check::run("records are gathered in any order", records_are_gathered_in_any_order);
  check::run("damage is detected or harmless", damage_is_detected_or_harmless);
  check::run("each kind of damage is reported", each_kind_of_damage_is_reported);
}
