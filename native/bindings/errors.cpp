// Translates native exceptions to Python exceptions that carry the same numbers.
#include <string>

#include "bindings.h"
#include "labels/pack.h"

namespace dhilgt {

void bind_errors(nb::module_& module) {
  // Never freed: the translator may run at any time.
  static PyObject* out_of_budget =
      PyErr_NewExceptionWithDoc("dhilgt._native.OutOfBudget",
                                "The work needs more than its memory budget; args are (needed bytes, limit bytes, entries found).",
                                PyExc_MemoryError, nullptr);
  if (out_of_budget == nullptr) throw nb::python_error();
  module.attr("OutOfBudget") = nb::handle(out_of_budget);
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const OutOfBudget& failure) {
      PyObject* args =
          Py_BuildValue("(KKK)", static_cast<unsigned long long>(failure.needed_bytes),
                        static_cast<unsigned long long>(failure.limit_bytes),
                        static_cast<unsigned long long>(failure.entries_found));
      PyErr_SetObject(out_of_budget, args);
      Py_XDECREF(args);
    } catch (const BadPacking& failure) {
      const std::string message = std::string("packed labels are damaged: ") + failure.what() +
                                  "; check them with `dhilgt inspect --verify` and build them again";
      const nb::object type = nb::module_::import_("dhilgt.errors").attr("ArtifactError");
      PyErr_SetString(type.ptr(), message.c_str());
    }
  });
}

}  // namespace dhilgt
