// The Python module `dhilgt._native`. Each binding file registers its own functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "base/simd.h"
#include "bindings.h"

namespace dhilgt {
namespace {

Simd simd_named(const std::string& name) {
  for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
    if (name == simd_name(level)) return level;
  }
  throw std::invalid_argument("SIMD level '" + name + "' is not one of portable, avx2, avx512");
}

void bind_simd(nb::module_& module) {
  module.def("simd_level", [] { return std::string(simd_name(simd_level())); });
  module.def("simd_supported", [] { return std::string(simd_name(simd_supported())); });
  module.def("set_simd_level", [](const std::string& name) { set_simd_level(simd_named(name)); },
             nb::arg("name"));
}

}  // namespace
}  // namespace dhilgt

NB_MODULE(_native, module) {
  module.doc() = "Native core of dhilgt.";
  dhilgt::bind_simd(module);
  dhilgt::bind_errors(module);
  dhilgt::bind_graph(module);
  dhilgt::bind_labels(module);
  dhilgt::bind_shards(module);
  dhilgt::bind_tokens(module);
}
