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

// Numbers as NumPy has them: an array of floats in a row is borrowed as it is, anything else that
// holds real numbers is converted at once, whatever np.errstate says: what is too large for single
// precision is infinite here. Throws TypeError that names the argument.
Floats floats_of(py::handle value, const char* name, const std::string& expected);

// One whole number, or an array of them; nothing for None. Throws TypeError, also for truth values,
// and ValueError for numbers out of [least, most], which name the argument.
struct Whole {
  std::optional<std::int64_t> one;
  Integers many;
};
std::optional<Whole> whole_of(py::handle value, const char* name, std::int64_t least,
                              std::int64_t most);
// Exactly one.
std::int64_t one_whole(py::handle value, const char* name, std::int64_t least, std::int64_t most);

// "(10, 8)", as Python writes it.
std::string shape_text(const py::array& array);

// Throw ValueError and TypeError: "arms: expected ..., got ...".
[[noreturn]] void refuse_value(const std::string& name, const std::string& expected,
                               const std::string& given);
[[noreturn]] void refuse_type(const std::string& name, const std::string& expected,
                              py::handle given);

// Throws ValueError with the place of the first number that is not finite.
void check_finite(const Floats& array, const char* name);

// What the arguments of one call have to fit.
struct Limits {
  std::size_t users;
  std::uint32_t features;
  std::uint32_t block;  // 0: whole vectors
};

// Rounds read from the arguments of choose and scores. They borrow from `features`. Rounds without
// an id given have none yet: `ids` is empty.
struct RoundsRead {
  Floats features;
  std::vector<Round> rounds;
  std::vector<std::uint64_t> ids;
  bool batch = false;
};
// `arms` is (arms, features), or (rounds, arms, features) for a batch; `user` one for all, one per
// round or one per arm.
RoundsRead read_rounds(const Limits& limits, py::handle user, py::handle arms, py::handle items,
                       py::handle offsets, py::handle round);

// Arms of earlier rounds with their rewards, read from the arguments of learn and cluster. Without
// `round` the rounds are left for the bandit to find.
struct ArmsRead {
  Floats features;
  std::vector<RewardedArm> arms;
  bool has_rounds = false;
  bool has_indices = false;
  bool batch = false;
};
// `reward` is null where there is none to read.
ArmsRead read_arms(const Limits& limits, py::handle user, py::handle arm, const py::handle* reward,
                   py::handle item, py::handle offset, py::handle round, py::handle index);

// A copy of an arm's features.
py::array_t<float> copy_of(std::span<const float> values);

}  // namespace mcnb::python
