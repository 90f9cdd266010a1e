// Edge lists for Python: clean rows, id mapping, text.
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings.h"
#include "graph/csr.h"
#include "graph/edge_text.h"
#include "graph/ids.h"

namespace dhilgt {

namespace {

template <class Index>
void check_endpoints(const char* name, const ArrayIn<Index>& values, std::int64_t num_nodes) {
  const std::size_t at = first_outside(values.data(), values.size(), num_nodes);
  if (at == values.size()) return;
  throw std::invalid_argument(std::string(name) + "[" + std::to_string(at) + "] is " +
                              std::to_string(values.data()[at]) + ", outside 0 to " +
                              std::to_string(num_nodes - 1));
}

template <class Index>
void check_same_length(const ArrayIn<Index>& sources, const ArrayIn<Index>& targets) {
  if (sources.size() == targets.size()) return;
  throw std::invalid_argument("sources and targets differ in length: " +
                              std::to_string(sources.size()) + " and " +
                              std::to_string(targets.size()));
}

template <class Index>
nb::tuple py_build_csr(ArrayIn<Index> sources, ArrayIn<Index> targets, std::int64_t num_nodes,
                       bool directed, unsigned threads) {
  check_num_nodes(num_nodes);
  check_same_length(sources, targets);
  check_endpoints("sources", sources, num_nodes);
  check_endpoints("targets", targets, num_nodes);
  Control control;
  CleanCsr csr;
  run_polled(control, nb::none(), [&] {
    csr = build_csr(sources.data(), targets.data(), sources.size(), num_nodes, directed, threads,
                    control);
  });
  return nb::make_tuple(to_numpy(std::move(csr.offsets)), to_numpy(std::move(csr.targets)),
                        csr.self_loops, csr.duplicates, csr.reversed_added);
}

nb::tuple py_transpose(ArrayIn<std::int64_t> offsets, ArrayIn<std::int32_t> targets) {
  const auto num_nodes = static_cast<std::int64_t>(offsets.size()) - 1;
  check_num_nodes(num_nodes);
  const std::int64_t* row = offsets.data();
  bool valid = row[0] == 0 && row[num_nodes] == static_cast<std::int64_t>(targets.size());
  for (std::int64_t i = 0; valid && i < num_nodes; ++i) valid = row[i] <= row[i + 1];
  if (!valid) throw std::invalid_argument("offsets do not describe targets");
  check_endpoints("targets", targets, num_nodes);
  Control control;
  Csr csr;
  run_polled(control, nb::none(),
             [&] { csr = transpose(offsets.data(), targets.data(), num_nodes, control); });
  return nb::make_tuple(to_numpy(std::move(csr.offsets)), to_numpy(std::move(csr.targets)));
}

nb::tuple py_compact_ids(ArrayIn<std::int64_t> sources, ArrayIn<std::int64_t> targets,
                         unsigned threads) {
  check_same_length(sources, targets);
  Control control;
  CompactIds out;
  run_polled(control, nb::none(), [&] {
    out = compact_ids(sources.data(), targets.data(), sources.size(), threads, control);
  });
  return nb::make_tuple(to_numpy(std::move(out.ids)), to_numpy(std::move(out.sources)),
                        to_numpy(std::move(out.targets)));
}

void py_feed(EdgeText& parser, nb::bytes text, unsigned threads) {
  Control control;
  run_polled(control, nb::none(),
             [&] { parser.feed(text.c_str(), text.size(), threads, control); });
}

nb::tuple py_take_integers(EdgeText& parser) {
  std::vector<std::int64_t> sources;
  std::vector<std::int64_t> targets;
  parser.take_integers(sources, targets);
  return nb::make_tuple(to_numpy(std::move(sources)), to_numpy(std::move(targets)));
}

nb::tuple py_take_strings(EdgeText& parser) {
  std::vector<std::string> names;
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> targets;
  Control control;
  run_polled(control, nb::none(), [&] { parser.take_strings(names, sources, targets); });
  nb::list texts;
  for (const std::string& name : names) texts.append(nb::str(name.data(), name.size()));
  return nb::make_tuple(texts, to_numpy(std::move(sources)), to_numpy(std::move(targets)));
}

// A ValueError with args (kind, line, text as bytes); the caller writes the message.
void bind_text_error(nb::module_& module) {
  static PyObject* text_error = PyErr_NewExceptionWithDoc(
      "dhilgt._native.EdgeTextError", "The first bad line; args are (kind, line, text).",
      PyExc_ValueError, nullptr);
  if (text_error == nullptr) throw nb::python_error();
  module.attr("EdgeTextError") = nb::handle(text_error);
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const EdgeTextError& failure) {
      const nb::tuple args = nb::make_tuple(nb::str(failure.kind), failure.line,
                                            nb::bytes(failure.text.data(), failure.text.size()));
      PyErr_SetObject(text_error, args.ptr());
    }
  });
}

EdgeTextOptions make_options(const std::string& separator, unsigned source_column,
                             unsigned target_column, bool extra_columns, int ones_column,
                             bool strings, std::uint64_t first_line, bool whole,
                             const std::string& comment, bool guard) {
  if (separator.size() != 1) throw std::invalid_argument("the separator must be one character");
  if (comment.size() > 1) throw std::invalid_argument("a comment must begin with one character");
  EdgeTextOptions options;
  options.separator = separator[0];
  options.source_column = source_column;
  options.target_column = target_column;
  options.extra_columns = extra_columns;
  options.ones_column = ones_column;
  options.strings = strings;
  options.first_line = first_line;
  options.whole = whole;
  options.comment = comment.empty() ? '\0' : comment[0];
  options.guard = guard;
  return options;
}

template <class Index>
void bind_build_csr(nb::module_& module) {
  module.def("build_csr", &py_build_csr<Index>, nb::arg("sources").noconvert(),
             nb::arg("targets").noconvert(), nb::arg("num_nodes"), nb::arg("directed"),
             nb::arg("threads"));
}

}  // namespace

void bind_graph(nb::module_& module) {
  bind_text_error(module);
  module.attr("NODE_LIMIT") = kNodeLimit;
  bind_build_csr<std::int32_t>(module);
  bind_build_csr<std::int64_t>(module);
  module.def("transpose", &py_transpose, nb::arg("offsets").noconvert(),
             nb::arg("targets").noconvert());
  module.def("compact_ids", &py_compact_ids, nb::arg("sources").noconvert(),
             nb::arg("targets").noconvert(), nb::arg("threads"));
  nb::class_<EdgeText>(module, "EdgeText")
      .def(
          "__init__",
          [](EdgeText* self, const std::string& separator, unsigned source_column,
             unsigned target_column, bool extra_columns, int ones_column, bool strings,
             std::uint64_t first_line, bool whole, const std::string& comment, bool guard) {
            new (self) EdgeText(make_options(separator, source_column, target_column, extra_columns,
                                             ones_column, strings, first_line, whole, comment,
                                             guard));
          },
          nb::kw_only(), nb::arg("separator"), nb::arg("source_column"), nb::arg("target_column"),
          nb::arg("extra_columns"), nb::arg("ones_column"), nb::arg("strings"),
          nb::arg("first_line"), nb::arg("whole") = false, nb::arg("comment") = "",
          nb::arg("guard") = false)
      .def("feed", &py_feed, nb::arg("text"), nb::arg("threads"), nb::lock_self())
      .def("take_integers", &py_take_integers)
      .def("take_strings", &py_take_strings)
      .def_prop_ro("num_edges", &EdgeText::num_edges)
      .def_prop_ro("num_comments", &EdgeText::num_comments)
      .def_prop_ro("num_marked", &EdgeText::num_marked);
}

}  // namespace dhilgt
