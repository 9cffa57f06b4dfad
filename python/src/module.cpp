// The module mcnb._core: the engine as Python calls it. The package around it is in python/mcnb.

#include <pybind11/pybind11.h>

#include <cstdlib>
#include <string>

#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"
#include "python/src/bandit.h"
#include "python/src/logs.h"
#include "python/src/runs.h"

namespace mcnb::python {
namespace {

PyObject* python_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kSystem:
      return PyExc_OSError;
    case ErrorKind::kLimit:
      return PyExc_RuntimeError;
    case ErrorKind::kUsage:
    case ErrorKind::kInput:
    case ErrorKind::kCorrupt:
      break;
  }
  return PyExc_ValueError;
}

void translate(std::exception_ptr failure) {
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (const Error& error) {
    PyErr_SetString(python_kind(error.kind()), error.what());
  }
}

// pybind11 depends on the memory layout of NumPy's arrays. NumPy 2 changed it, and pybind11
// supports that from version 2.12.
void check_numpy() {
  const auto version = py::cast<std::string>(py::module_::import("numpy").attr("__version__"));
  if (PYBIND11_VERSION_HEX < 0x020C0000 && std::stoi(version) >= 2) {
    throw py::import_error("mcnb: expected NumPy 1, got NumPy " + version +
                           ": this build of mcnb is made with pybind11 " +
                           std::to_string(PYBIND11_VERSION_MAJOR) + "." +
                           std::to_string(PYBIND11_VERSION_MINOR) +
                           ", which cannot read the arrays of NumPy 2; 2.12 can");
  }
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The engine of mcnb. Use the package mcnb, which is made of it.";
  check_numpy();
  py::register_exception_translator(&translate);
  kernels::use_simd_settings(std::getenv("MCNB_SIMD_LIMIT"), std::getenv("MCNB_SIMD"));
  module.attr("__version__") = MCNB_VERSION;
  module.attr("simd_target") = kernels::simd_target();
  bind_logs(module);  // before what takes logs
  bind_bandit(module);
  bind_evaluation(module);
  bind_runs(module);
}

}  // namespace mcnb::python
