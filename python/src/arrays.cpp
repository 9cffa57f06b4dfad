#include "python/src/arrays.h"

#include <fmt/core.h>

#include <cmath>

namespace mcnb::python {
namespace {

constexpr std::int64_t kMostItems = 0xfffffffe;  // kNoItem stands behind them

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

// floats_of, where the words for an error are made only when they are needed.
template <class Expected>
Floats as_floats(py::handle value, const char* name, const Expected& expected) {
  return py::isinstance<Floats>(value) ? py::reinterpret_borrow<Floats>(value)
                                       : floats_of(value, name, expected());
}

std::string place_text(const py::array& array, py::ssize_t place) {
  Shape at(static_cast<std::size_t>(array.ndim()));
  for (py::ssize_t i = array.ndim() - 1; i >= 0; --i) {
    at[static_cast<std::size_t>(i)] = place % array.shape(i);
    place /= array.shape(i);
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

// Whole numbers for arms in rows: one for all, or as many as the rows, or one for each of them.
class PerArm {
 public:
  // Refuses arrays that have neither shape and numbers out of [0, most].
  PerArm(py::handle value, const char* name, const Shape& arms, const Shape& rounds,
         std::int64_t most)
      : whole_(whole_of(value, name)) {
    if (!whole_) {
      return;
    }
    if (whole_->one) {
      if (*whole_->one < 0 || *whole_->one > most) {
        refuse_value(name, fmt::format("0 to {}", most), std::to_string(*whole_->one));
      }
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
    for (py::ssize_t i = 0; i < many.size(); ++i) {
      const std::int64_t one = many.data()[i];
      if (one < 0 || one > most) {
        refuse_value(name, fmt::format("0 to {}", most),
                     fmt::format("{} at {}", one, place_text(many, i)));
      }
    }
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

// How long the features of an arm have to be: 0 where offsets leave it open.
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
  if (py::isinstance<Floats>(value)) {
    return py::reinterpret_borrow<Floats>(value);
  }
  const py::array array = array_of(value, name, expected);
  if (!holds_real_numbers(array)) {
    refuse_type(name, expected, py::isinstance<py::array>(value) ? py::handle(array) : value);
  }
  auto converted = py::array_t<float, py::array::c_style | py::array::forcecast>::ensure(array);
  if (!converted) {
    refuse_type(name, expected, value);
  }
  return py::reinterpret_borrow<Floats>(converted);
}

std::optional<Whole> whole_of(py::handle value, const char* name) {
  if (value.is_none()) {
    return std::nullopt;
  }
  const std::string expected = "a whole number or an array of whole numbers";
  if (!py::isinstance<py::array>(value) && PyIndex_Check(value.ptr()) != 0) {
    const py::ssize_t one = PyNumber_AsSsize_t(value.ptr(), PyExc_ValueError);
    if (one == -1 && PyErr_Occurred() != nullptr) {
      throw py::error_already_set();
    }
    return Whole{.one = one, .many = {}};
  }
  const py::array array = array_of(value, name, expected);
  const char kind = array.dtype().kind();
  const bool empty_list = array.size() == 0 && !py::isinstance<py::array>(value);
  if (kind != 'i' && kind != 'u' && !empty_list) {
    refuse_type(name, expected, py::isinstance<py::array>(value) ? py::handle(array) : value);
  }
  auto converted =
      py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>::ensure(array);
  if (converted.ndim() == 0) {
    return Whole{.one = *converted.data(), .many = {}};
  }
  return Whole{.one = std::nullopt, .many = py::reinterpret_borrow<Integers>(converted)};
}

void check_finite(const Floats& array, const char* name) {
  const std::span<const float> values(array.data(), static_cast<std::size_t>(array.size()));
  if (all_finite(values)) {
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      const auto place = static_cast<py::ssize_t>(i);
      refuse_value(name, "finite numbers (of single precision)",
                   fmt::format("{} at {}", values[i], place_text(array, place)));
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
    refuse_type("user", "a whole number or an array of whole numbers", user);
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
      // One number is that of the first round; the others follow it.
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
    refuse_type("user", "a whole number or an array of whole numbers", user);
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
