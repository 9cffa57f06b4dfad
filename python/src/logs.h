#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/logs/logged_round.h"

namespace mcnb::python {

namespace py = pybind11;

// A log of decisions: a file, the data folder of a service, or text that was made in Python.
// Reading needs no GIL, so visitors take it if they call Python.
class Log {
 public:
  // `text` is read instead of the file `path` if it is there. `from` and `to` are times as texts,
  // or empty.
  Log(std::string path, std::optional<std::string> text, std::uint64_t skip_bad, std::string model,
      const std::string& from, const std::string& to);

  // Visits all rounds and looks for Ctrl-C now and then. Returns what there was besides, for
  // people. Requires that the calling thread does not hold the GIL.
  std::string read(bool features, const VisitRound& visit) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<std::string> text_;
  std::uint64_t skip_bad_;
  std::string model_;
  std::optional<std::int64_t> from_;
  std::optional<std::int64_t> to_;
};

// A round as Python sees it: a tuple in the order of the fields of mcnb.logs.LoggedRound.
py::tuple round_tuple(const LoggedRound& round);

// Logs, their rounds one by one, and their evaluation.
void bind_logs(py::module_& module);
void bind_evaluation(py::module_& module);

}  // namespace mcnb::python
