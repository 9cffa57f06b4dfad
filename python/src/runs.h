#pragma once

#include <pybind11/pybind11.h>

namespace mcnb::python {

// Environments that Python iterates over, and runs of policies in them.
void bind_runs(pybind11::module_& module);

}  // namespace mcnb::python
