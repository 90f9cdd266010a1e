// Slices of shards (shards.h), written node by node.
#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"
#include "base/types.h"
#include "labels/records.h"
#include "labels/shards.h"

namespace dhilgt {

// Writes the slices of the parts [first_part, last_part) of `bounds`.
class SliceWriter {
 public:
  SliceWriter(std::span<const Node> bounds, std::size_t first_part, std::size_t last_part, Control& control)
      : bounds_(bounds), part_(first_part), last_part_(last_part), before_(bounds[first_part]),
        ends_(&control), bytes_(&control) {}

  // Nodes ascend. The label begins with a self entry, and its hubs are counted from the first of the shard.
  void add(Node node, const LabelView& label) {
    while (node >= bounds_[part_ + 1]) close_part();
    append_varint(bytes_, node - before_);
    append_record(bytes_, label);
    before_ = node;
  }
  void close() {
    while (part_ < last_part_) close_part();
  }

  // All slices of closed writers, one after the other; their memory is freed.
  static Slices joined(std::vector<SliceWriter>& writers, Control& control) {
    Slices slices{Buffer<Offset>(&control), Buffer<std::uint8_t>(&control)};
    slices.offsets.push_back(0);
    for (SliceWriter& writer : writers) {
      const Offset before = slices.bytes.size();
      for (const Offset end : writer.ends_) slices.offsets.push_back(before + end);
      if (before == 0) slices.bytes.swap(writer.bytes_);
      else slices.bytes.append(writer.bytes_.data(), writer.bytes_.size());
      writer.bytes_.clear();
    }
    return slices;
  }

 private:
  void close_part() {
    ends_.push_back(bytes_.size());
    before_ = bounds_[++part_];
  }

  const std::span<const Node> bounds_;
  std::size_t part_;
  const std::size_t last_part_;
  Node before_;  // the last node, or the first of the part
  Buffer<Offset> ends_;
  Buffer<std::uint8_t> bytes_;
};

}  // namespace dhilgt
