// The Python module `dhilgt._native`. Each topic registers its own functions.
#include <nanobind/nanobind.h>

#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "Native core of dhilgt.";
  dhilgt::bind_errors(module);
  dhilgt::bind_graph(module);
  dhilgt::bind_labels(module);
  dhilgt::bind_tokens(module);
}
