#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb::python {

namespace py = pybind11;

using Floats = py::array_t<float, py::array::c_style>;
using Integers = py::array_t<std::int64_t, py::array::c_style>;
using Shape = std::vector<py::ssize_t>;

// Converts an argument to an array of floats. A contiguous array of floats is borrowed; any other
// array of real numbers is converted, whatever np.errstate says. Numbers that are too large for
// single precision become infinite. Throws TypeError that names the argument.
Floats floats_of(py::handle value, const char* name, const std::string& expected);

// One whole number or an array of them; nullopt for None. Throws TypeError (also for booleans) and
// ValueError for numbers outside [least, most]; both name the argument.
struct Whole {
  std::optional<std::int64_t> one;
  Integers many;
};
std::optional<Whole> whole_of(py::handle value, const char* name, std::int64_t least,
                              std::int64_t most);
// Reads exactly one whole number.
std::int64_t one_whole(py::handle value, const char* name, std::int64_t least, std::int64_t most);

// The shape as Python writes it: "(10, 8)".
std::string shape_text(const py::array& array);

// Throw ValueError and TypeError: "arms: expected ..., got ...".
[[noreturn]] void refuse_value(const std::string& name, const std::string& expected,
                               const std::string& given);
[[noreturn]] void refuse_type(const std::string& name, const std::string& expected,
                              py::handle given);

// Throws ValueError that names the index of the first number that is not finite.
void check_finite(const Floats& array, const char* name);

// The limits that the arguments of one call must respect.
struct Limits {
  std::size_t users;
  std::uint32_t features;
  std::uint32_t block;  // 0: whole vectors
};

// Rounds read from the arguments of choose and scores. They borrow from `features`. If no round ids
// were given, `ids` is empty.
struct RoundsRead {
  Floats features;
  std::vector<Round> rounds;
  std::vector<std::uint64_t> ids;
  bool batch = false;
};
// `arms` has shape (arms, features), or (rounds, arms, features) for a batch. `user` is one number
// for all, one per round or one per arm.
RoundsRead read_rounds(const Limits& limits, py::handle user, py::handle arms, py::handle items,
                       py::handle offsets, py::handle round);

// Arms of earlier rounds with their rewards, read from the arguments of learn and cluster. If
// `round` was not given, the bandit finds the rounds.
struct ArmsRead {
  Floats features;
  std::vector<RewardedArm> arms;
  bool has_rounds = false;
  bool has_indices = false;
  bool batch = false;
};
// `reward` is null if no reward is to be read.
ArmsRead read_arms(const Limits& limits, py::handle user, py::handle arm, const py::handle* reward,
                   py::handle item, py::handle offset, py::handle round, py::handle index);

// A copy of an arm's features.
py::array_t<float> copy_of(std::span<const float> values);

}  // namespace mcnb::python
