// The labels object of the Python module, and checks of its arguments.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>

#include "base/types.h"
#include "bindings.h"
#include "labels/query.h"
#include "labels/set.h"

namespace dhilgt {

using Nodes = ArrayIn<std::uint32_t>;

inline std::span<const Node> checked_nodes(const Nodes& nodes, Node num_nodes, const char* name) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes.data()[i] >= num_nodes) {
      throw std::invalid_argument(std::string(name) + "[" + std::to_string(i) + "] = " +
                                  std::to_string(nodes.data()[i]) + " is not below " +
                                  std::to_string(num_nodes));
    }
  }
  return {nodes.data(), nodes.size()};
}

// Labels in memory, or packed in arrays of Python (usually mapped files). Side 0 holds the hubs that reach
// a node, side 1 the hubs that a node reaches; on undirected graphs they are the same.
class NativeLabels {
 public:
  explicit NativeLabels(Labels labels) : labels_(std::move(labels)), directed_(labels_.directed) {
    labels_.in.detach();
    labels_.out.detach();
    sources_[0].in_memory = &labels_.in_labels();
    sources_[1].in_memory = &labels_.out_labels();
  }
  NativeLabels(bool directed, PackedView in, PackedView out, nb::object arrays)
      : directed_(directed), keep_alive_(std::move(arrays)) {
    sources_[0].packed = in;
    sources_[1].packed = out;
  }
  NativeLabels(const NativeLabels&) = delete;
  NativeLabels& operator=(const NativeLabels&) = delete;

  bool directed() const { return directed_; }
  Node num_nodes() const { return sources_[0].num_nodes(); }
  bool packed() const { return sources_[0].in_memory == nullptr; }
  const LabelSource& source(int side) const {
    if (side != 0 && side != 1) throw std::invalid_argument("side must be 0 (in) or 1 (out)");
    return sources_[side];
  }
  const LabelSource& in_labels() const { return sources_[0]; }
  const LabelSource& out_labels() const { return sources_[1]; }

  // Answers one pair, with a table that is kept from call to call.
  Answer ask(Node from, Node to) {
    const std::lock_guard<std::mutex> guard(querier_lock_);
    if (!querier_) querier_ = std::make_unique<Querier>(out_labels(), in_labels());
    querier_->set_source(from);
    return querier_->to(to);
  }

  const LabelSet& in_memory(int side) const {
    const LabelSet* set = source(side).in_memory;
    if (set == nullptr) throw std::invalid_argument("labels are packed; load them with mmap=False");
    return *set;
  }

 private:
  Labels labels_;
  bool directed_;
  nb::object keep_alive_;
  LabelSource sources_[2];
  std::mutex querier_lock_;
  std::unique_ptr<Querier> querier_;
};

}  // namespace dhilgt
