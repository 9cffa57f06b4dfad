#include "python/src/arrays.h"

#include <fmt/core.h>

#include <cmath>
#include <string_view>
#include <utility>

namespace mcnb::python {
namespace {

constexpr std::int64_t kMostItems = 0xfffffffe;  // kNoItem is the next number
constexpr const char* kWholeNumbers = "a whole number or an array of whole numbers";

// The flags of arrays that the engine reads in place; other arrays are converted to such arrays.
constexpr int kAligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_;
constexpr int kPlain = py::array::c_style | py::array::forcecast | kAligned;

bool can_be_borrowed(py::handle value) {
  return py::isinstance<Floats>(value) && py::detail::check_flags(value.ptr(), kAligned);
}

bool holds_real_numbers(const py::array& array) {
  const char kind = array.dtype().kind();
  return kind == 'f' || kind == 'i' || kind == 'u' || kind == 'b';
}

py::array array_of(py::handle value, const char* name, const std::string& expected) {
  py::array array = py::array::ensure(value);
  if (!array) {
    refuse_type(name, expected, value);
  }
  return array;
}

// Does what floats_of does, but builds the text of the error only when it is needed.
template <class Expected>
Floats as_floats(py::handle value, const char* name, const Expected& expected) {
  return can_be_borrowed(value) ? py::reinterpret_borrow<Floats>(value)
                                : floats_of(value, name, expected());
}

std::string index_text(const py::array& array, py::ssize_t position) {
  Shape at(static_cast<std::size_t>(array.ndim()));
  for (py::ssize_t i = array.ndim() - 1; i >= 0; --i) {
    at[static_cast<std::size_t>(i)] = position % array.shape(i);
    position /= array.shape(i);
  }
  std::string text;
  for (const py::ssize_t i : at) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  }
  return "[" + text + "]";
}

bool has_shape(const py::array& array, const Shape& shape) {
  return static_cast<std::size_t>(array.ndim()) == shape.size() &&
         std::equal(shape.begin(), shape.end(), array.shape());
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const py::ssize_t length : shape) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", length);
  }
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

bool is_truth_value(py::handle value) {
  const std::string_view type = Py_TYPE(value.ptr())->tp_name;
  return PyBool_Check(value.ptr()) != 0 || type == "numpy.bool_" || type == "numpy.bool";
}

[[noreturn]] void refuse_range(const char* name, std::int64_t least, std::int64_t most,
                               const std::string& given) {
  refuse_value(name, fmt::format("{} to {}", least, most), given);
}

// Compares by value for any integer type, without a conversion that could change the value.
template <class T>
void check_range(const py::array_t<T, kPlain>& many, const char* name, std::int64_t least,
                 std::int64_t most) {
  for (py::ssize_t i = 0; i < many.size(); ++i) {
    const T one = many.data()[i];
    if (std::cmp_less(one, least) || std::cmp_greater(one, most)) {
      refuse_range(name, least, most,
                   many.ndim() == 0 ? std::to_string(one)
                                    : fmt::format("{} at {}", one, index_text(many, i)));
    }
  }
}

// NumPy turns lists with whole numbers that are too large for it into floats or objects.
void refuse_too_large(py::handle list, const char* name, std::int64_t least, std::int64_t most) {
  const py::object objects =
      py::module_::import("numpy").attr("array")(list, py::arg("dtype") = "object").attr("ravel")();
  for (const py::handle one : objects) {
    int beyond = 0;
    if (PyLong_Check(one.ptr()) != 0 &&
        (PyLong_AsLongLongAndOverflow(one.ptr(), &beyond), beyond != 0)) {
      refuse_range(name, least, most, py::cast<std::string>(py::str(one)));
    }
  }
}

// Whole numbers for rows of arms: one for all, one per row, or one per arm.
class PerArm {
 public:
  // Refuses arrays of any other shape and numbers outside [0, most].
  PerArm(py::handle value, const char* name, const Shape& arms, const Shape& rounds,
         std::int64_t most)
      : whole_(whole_of(value, name, 0, most)) {
    if (!whole_ || whole_->one) {
      return;
    }
    const Integers& many = whole_->many;
    if (!has_shape(many, arms) && (rounds.empty() || !has_shape(many, rounds))) {
      refuse_value(name,
                   fmt::format("a whole number or an array of shape {}{}", text_of(arms),
                               rounds.empty() || rounds == arms ? "" : " or " + text_of(rounds)),
                   "shape " + shape_text(many));
    }
    per_round_ = !has_shape(many, arms);
  }

  bool given() const { return whole_.has_value(); }
  bool is_one() const { return whole_ && whole_->one; }

  std::int64_t at(std::size_t round, std::size_t arms_of_round, std::size_t arm) const {
    if (whole_->one) {
      return *whole_->one;
    }
    return whole_->many.data()[per_round_ ? round : round * arms_of_round + arm];
  }

 private:
  std::optional<Whole> whole_;
  bool per_round_ = false;
};

// The required length of an arm's features; 0 if offsets allow any length.
std::size_t expected_length(const Limits& limits, bool offsets) {
  if (!offsets) {
    return limits.features;
  }
  return limits.block;
}

std::string length_text(const Limits& limits, bool offsets) {
  const std::size_t expected = expected_length(limits, offsets);
  return expected == 0 ? fmt::format("1 to {}", limits.features) : std::to_string(expected);
}

void check_length(const Limits& limits, bool offsets, const py::array& array, const char* name,
                  const std::string& before) {
  const auto length = static_cast<std::size_t>(array.shape(array.ndim() - 1));
  const std::size_t expected = expected_length(limits, offsets);
  if (expected == 0 ? length == 0 || length > limits.features : length != expected) {
    refuse_value(name,
                 fmt::format("shape ({}{}{})", before, length_text(limits, offsets),
                             before.empty() ? "," : ""),
                 "shape " + shape_text(array));
  }
}

std::uint32_t read_offset(const Limits& limits, std::int64_t offset, std::size_t length,
                          const char* name) {
  if (static_cast<std::size_t>(offset) + length > limits.features) {
    refuse_value(name,
                 fmt::format("at most {}, as a block of {} has to end within {} features",
                             limits.features - length, length, limits.features),
                 std::to_string(offset));
  }
  return static_cast<std::uint32_t>(offset);
}

void read_reward(py::handle reward, bool batch, std::vector<RewardedArm>& arms) {
  const std::string expected =
      batch ? fmt::format("numbers of shape ({},)", arms.size()) : std::string("one number");
  const Floats values = floats_of(reward, "reward", expected);
  const bool fits =
      batch ? has_shape(values, {static_cast<py::ssize_t>(arms.size())}) : values.ndim() == 0;
  if (!fits) {
    refuse_value("reward", expected, "shape " + shape_text(values));
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const float value = values.data()[i];
    if (!(std::abs(value) <= kLargestReward)) {
      refuse_value("reward", fmt::format("a number from {} to {}", -kLargestReward, kLargestReward),
                   fmt::format("{}{}", value, batch ? fmt::format(" at [{}]", i) : ""));
    }
    arms[i].reward = value;
  }
}

}  // namespace

std::string shape_text(const py::array& array) {
  return text_of(Shape(array.shape(), array.shape() + array.ndim()));
}

void refuse_value(const std::string& name, const std::string& expected, const std::string& given) {
  throw py::value_error(fmt::format("{}: expected {}, got {}", name, expected, given));
}

void refuse_type(const std::string& name, const std::string& expected, py::handle given) {
  const std::string type =
      py::isinstance<py::array>(given)
          ? "an array of " + py::cast<std::string>(py::str(given.attr("dtype").attr("name")))
          : py::cast<std::string>(py::type::of(given).attr("__name__"));
  throw py::type_error(fmt::format("{}: expected {}, got {}", name, expected, type));
}

Floats floats_of(py::handle value, const char* name, const std::string& expected) {
  if (can_be_borrowed(value)) {
    return py::reinterpret_borrow<Floats>(value);
  }
  const py::array array = array_of(value, name, expected);
  if (!holds_real_numbers(array)) {
    refuse_type(name, expected, py::isinstance<py::array>(value) ? py::handle(array) : value);
  }
  using Converted = py::array_t<float, kPlain>;
  auto converted = Converted::ensure(array);
  if (!converted) {
    // NumPy refuses numbers that are too large for single precision if np.errstate says so or if
    // warnings are errors.
    const py::object quiet =
        py::module_::import("numpy").attr("errstate")(py::arg("all") = "ignore");
    quiet.attr("__enter__")();
    converted = Converted::ensure(array);
    quiet.attr("__exit__")(py::none(), py::none(), py::none());
  }
  if (!converted) {
    refuse_type(name, expected, value);
  }
  return py::reinterpret_borrow<Floats>(converted);
}

std::optional<Whole> whole_of(py::handle value, const char* name, std::int64_t least,
                              std::int64_t most) {
  if (value.is_none()) {
    return std::nullopt;
  }
  if (!py::isinstance<py::array>(value) && PyIndex_Check(value.ptr()) != 0 &&
      !is_truth_value(value)) {
    const py::ssize_t one = PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError);
    const bool failed = one == -1 && PyErr_Occurred() != nullptr;
    if (failed && PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
      throw py::error_already_set();
    }
    if (failed || one < least || one > most) {
      PyErr_Clear();
      refuse_range(name, least, most, py::cast<std::string>(py::str(value)));
    }
    return Whole{.one = one, .many = {}};
  }
  const py::array array = array_of(value, name, kWholeNumbers);
  const char kind = array.dtype().kind();
  const bool is_array = py::isinstance<py::array>(value);
  const bool empty_list = array.size() == 0 && !is_array;
  if (kind != 'i' && kind != 'u' && !empty_list) {
    if (!is_array && (kind == 'f' || kind == 'O')) {
      refuse_too_large(value, name, least, most);
    }
    refuse_type(name, kWholeNumbers, is_array ? py::handle(array) : value);
  }
  if (kind == 'u') {
    check_range(py::array_t<std::uint64_t, kPlain>::ensure(array), name, least, most);
  }
  const auto converted = py::array_t<std::int64_t, kPlain>::ensure(array);
  check_range(converted, name, least, most);
  if (converted.ndim() == 0) {
    return Whole{.one = *converted.data(), .many = {}};
  }
  return Whole{.one = std::nullopt, .many = py::reinterpret_borrow<Integers>(converted)};
}

std::int64_t one_whole(py::handle value, const char* name, std::int64_t least, std::int64_t most) {
  const bool is_number = PyIndex_Check(value.ptr()) != 0 && !is_truth_value(value);
  const std::optional<Whole> whole = is_number ? whole_of(value, name, least, most) : std::nullopt;
  if (!whole || !whole->one) {
    refuse_type(name, fmt::format("a whole number from {} to {}", least, most), value);
  }
  return *whole->one;
}

void check_finite(const Floats& array, const char* name) {
  const std::span<const float> values(array.data(), static_cast<std::size_t>(array.size()));
  if (all_finite(values)) {
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      const auto position = static_cast<py::ssize_t>(i);
      refuse_value(name, "finite numbers (of single precision)",
                   fmt::format("{} at {}", values[i], index_text(array, position)));
    }
  }
}

RoundsRead read_rounds(const Limits& limits, py::handle user, py::handle arms, py::handle items,
                       py::handle offsets, py::handle round) {
  const auto expected = [&] {
    const std::string tail = "arms, " + length_text(limits, !offsets.is_none()) + ")";
    return fmt::format("numbers of shape ({} or (rounds, {}", tail, tail);
  };
  RoundsRead read{.features = as_floats(arms, "arms", expected)};
  const Floats& features = read.features;
  if (features.ndim() != 2 && features.ndim() != 3) {
    refuse_value("arms", expected(), "shape " + shape_text(features));
  }
  check_length(limits, !offsets.is_none(), features, "arms",
               features.ndim() == 2 ? "arms, " : "rounds, arms, ");
  read.batch = features.ndim() == 3;
  const auto count = static_cast<std::size_t>(read.batch ? features.shape(0) : 1);
  const auto arm_count = static_cast<std::size_t>(features.shape(features.ndim() - 2));
  const auto length = static_cast<std::size_t>(features.shape(features.ndim() - 1));
  if (arm_count == 0 || arm_count > kMostArms) {
    refuse_value("arms", fmt::format("1 to {} of them", kMostArms), std::to_string(arm_count));
  }
  check_finite(features, "arms");

  const Shape per_arm(features.shape(), features.shape() + features.ndim() - 1);
  const Shape per_round = read.batch ? Shape{features.shape(0)} : Shape{};
  const auto users = static_cast<std::int64_t>(limits.users);
  const PerArm users_read(user, "user", per_arm, per_round, users - 1);
  if (!users_read.given()) {
    refuse_type("user", kWholeNumbers, user);
  }
  const PerArm items_read(items, "items", per_arm, {}, kMostItems);
  const PerArm offsets_read(offsets, "offsets", per_arm, {}, limits.features);
  const PerArm ids_read(round, "round", per_round, {},
                        INT64_MAX - static_cast<std::int64_t>(count));

  read.rounds.resize(count);
  const float* values = features.data();
  for (std::size_t r = 0; r < count; ++r) {
    std::vector<Arm>& made = read.rounds[r].arms;
    made.resize(arm_count);
    for (std::size_t i = 0; i < arm_count; ++i, values += length) {
      made[i].index = ArmIndex{static_cast<std::uint32_t>(i)};
      made[i].user = UserId{static_cast<std::uint32_t>(users_read.at(r, arm_count, i))};
      if (items_read.given()) {
        made[i].item = ItemId{static_cast<std::uint32_t>(items_read.at(r, arm_count, i))};
      }
      made[i].features.values = {values, length};
      if (offsets_read.given()) {
        made[i].features.offset =
            read_offset(limits, offsets_read.at(r, arm_count, i), length, "offsets");
      }
    }
    if (ids_read.given()) {
      // A single number is the id of the first round; the other rounds count up from it.
      const auto id = static_cast<std::uint64_t>(ids_read.at(r, 1, 0));
      read.ids.push_back(id + (ids_read.is_one() ? r : 0));
    }
  }
  return read;
}

ArmsRead read_arms(const Limits& limits, py::handle user, py::handle arm, const py::handle* reward,
                   py::handle item, py::handle offset, py::handle round, py::handle index) {
  const auto expected = [&] {
    const std::string wanted = length_text(limits, !offset.is_none());
    return fmt::format("numbers of shape ({},) or (arms, {})", wanted, wanted);
  };
  ArmsRead read{.features = as_floats(arm, "arm", expected)};
  const Floats& features = read.features;
  if (features.ndim() != 1 && features.ndim() != 2) {
    refuse_value("arm", expected(), "shape " + shape_text(features));
  }
  read.batch = features.ndim() == 2;
  check_length(limits, !offset.is_none(), features, "arm", read.batch ? "arms, " : "");
  check_finite(features, "arm");
  const auto count = static_cast<std::size_t>(read.batch ? features.shape(0) : 1);
  const auto length = static_cast<std::size_t>(features.shape(features.ndim() - 1));

  const Shape shape = read.batch ? Shape{features.shape(0)} : Shape{};
  const auto most_users = static_cast<std::int64_t>(limits.users) - 1;
  const PerArm users_read(user, "user", shape, {}, most_users);
  if (!users_read.given()) {
    refuse_type("user", kWholeNumbers, user);
  }
  const PerArm items_read(item, "item", shape, {}, kMostItems);
  const PerArm offsets_read(offset, "offset", shape, {}, limits.features);
  const PerArm rounds_read(round, "round", shape, {}, INT64_MAX - 1);
  const PerArm indices_read(index, "index", shape, {}, static_cast<std::int64_t>(kMostArms) - 1);
  read.has_rounds = rounds_read.given();
  read.has_indices = indices_read.given();

  read.arms.resize(count);
  const float* values = features.data();
  for (std::size_t i = 0; i < count; ++i, values += length) {
    Arm& made = read.arms[i].arm;
    made.user = UserId{static_cast<std::uint32_t>(users_read.at(i, 1, 0))};
    made.features.values = {values, length};
    if (items_read.given()) {
      made.item = ItemId{static_cast<std::uint32_t>(items_read.at(i, 1, 0))};
    }
    if (offsets_read.given()) {
      made.features.offset = read_offset(limits, offsets_read.at(i, 1, 0), length, "offset");
    }
    if (rounds_read.given()) {
      read.arms[i].round = RoundId{static_cast<std::uint64_t>(rounds_read.at(i, 1, 0))};
    }
    if (indices_read.given()) {
      made.index = ArmIndex{static_cast<std::uint32_t>(indices_read.at(i, 1, 0))};
    }
  }
  if (reward != nullptr) {
    read_reward(*reward, read.batch, read.arms);
  }
  return read;
}

py::array_t<float> copy_of(std::span<const float> values) {
  return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data());
}

}  // namespace mcnb::python
