#include "python/src/players.h"

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include "mcnb/base/error.h"

namespace mcnb::python {
namespace {

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

std::vector<UserId> users_from(const py::object& ids) {
  std::vector<UserId> users;
  for (const std::uint32_t id : py::cast<std::vector<std::uint32_t>>(ids)) {
    users.push_back(UserId{id});
  }
  return users;
}

std::vector<double> numbers_from(const py::object& values) {
  if (values.is_none()) {
    return {};
  }
  const auto array = py::cast<Doubles>(values);
  return {array.data(), array.data() + array.size()};
}

py::object item_of(const Arm& arm) {
  return arm.item == kNoItem ? py::object(py::none()) : py::int_(index(arm.item));
}

[[noreturn]] void refuse_state() {
  throw Error(ErrorKind::kUsage, "policies written in Python are saved by Python");
}

}  // namespace

py::tuple round_tuple(const Round& round, std::uint32_t features) {
  const std::size_t count = round.arms.size();
  const std::size_t length = count == 0 ? 0 : round.arms[0].features.values.size();
  py::array_t<std::int64_t> users(static_cast<py::ssize_t>(count));
  py::array_t<float> arms(Shape{static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(length)});
  py::array_t<std::int64_t> items(static_cast<py::ssize_t>(count));
  py::array_t<std::int64_t> offsets(static_cast<py::ssize_t>(count));
  bool has_items = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Arm& arm = round.arms[i];
    if (arm.features.values.size() != length) {
      throw Error(ErrorKind::kInput,
                  fmt::format("round {}: arms of different lengths, which Python "
                              "policies cannot see",
                              index(round.id)));
    }
    users.mutable_data()[i] = static_cast<std::int64_t>(arm.user);
    std::ranges::copy(arm.features.values, arms.mutable_data() + i * length);
    items.mutable_data()[i] = arm.item == kNoItem ? -1 : static_cast<std::int64_t>(arm.item);
    offsets.mutable_data()[i] = arm.features.offset;
    has_items = has_items || arm.item != kNoItem;
  }
  return py::make_tuple(index(round.id), users, arms, has_items ? py::object(items) : py::none(),
                        length < features ? py::object(offsets) : py::none());
}

Held::~Held() {
  const py::gil_scoped_acquire acquire;
  object_ = {};
}

PythonPolicy::PythonPolicy(py::object policy, const PolicySetup& setup)
    : policy_(std::move(policy)), users_(setup.users), features_(setup.inputs) {}

void PythonPolicy::start(UserId user, const Sample& sample) {
  const py::gil_scoped_acquire acquire;
  policy_.get().attr("_start")(index(user), copy_of(sample.features.values), sample.features.offset,
                               sample.reward);
}

ArmIndex PythonPolicy::choose(const Round& round) {
  const py::gil_scoped_acquire acquire;
  const py::tuple seen = round_tuple(round, features_);
  const auto chosen = py::cast<std::uint32_t>(policy_.get().attr("_choose")(*seen));
  if (chosen >= round.arms.size()) {
    refuse_value("choose", fmt::format("0 to {}", round.arms.size() - 1), std::to_string(chosen));
  }
  return ArmIndex{chosen};
}

std::vector<Score> PythonPolicy::scores(const Round&) {
  throw Error(ErrorKind::kUsage, "policies written in Python give no scores");
}

std::optional<std::vector<UserId>> PythonPolicy::cluster(const Arm& arm) {
  const py::gil_scoped_acquire acquire;
  const py::object found = policy_.get().attr("_cluster")(
      index(arm.user), copy_of(arm.features.values), arm.features.offset);
  return found.is_none() ? std::nullopt : std::optional(users_from(found));
}

void PythonPolicy::learn(RoundId round, const Arm& arm, float reward) {
  const py::gil_scoped_acquire acquire;
  policy_.get().attr("_learn")(index(round), index(arm.index), index(arm.user),
                               copy_of(arm.features.values), item_of(arm), arm.features.offset,
                               reward);
}

std::size_t PythonPolicy::memory_bytes() const {
  const py::gil_scoped_acquire acquire;
  return py::cast<std::size_t>(policy_.get().attr("memory_bytes"));
}

void PythonPolicy::save(StateWriter&) const { refuse_state(); }
void PythonPolicy::load(StateReader&) { refuse_state(); }

PythonEnvironment::PythonEnvironment(py::object environment)
    : environment_(std::move(environment)) {
  const py::object about = environment_.get().attr("_about")();
  users_ = py::cast<std::size_t>(about["users"]);
  features_ = py::cast<std::uint32_t>(about["features"]);
  block_ = py::cast<std::uint32_t>(about["block"]);
  knows_clusters_ = py::cast<bool>(about["knows_clusters"]);
  if (const py::object known = about["user_features"]; !known.is_none()) {
    const auto read = py::cast<Floats>(known);
    user_features_.assign(read.data(), read.data() + read.size());
    user_feature_count_ = static_cast<std::size_t>(read.shape(1));
  }
  const auto start = py::cast<std::vector<std::tuple<std::uint32_t, Floats, float, std::uint32_t>>>(
      about["start_data"]);
  for (const auto& [user, values, reward, offset] : start) {
    start_values_.insert(start_values_.end(), values.data(), values.data() + values.size());
  }
  const float* next = start_values_.data();  // does not move from here on
  for (const auto& [user, values, reward, offset] : start) {
    const std::span<const float> own(next, static_cast<std::size_t>(values.size()));
    start_data_.push_back({UserId{user}, {{own, offset}, reward}});
    next += values.size();
  }
}

const Round& PythonEnvironment::next_round() {
  const py::gil_scoped_acquire acquire;
  const auto made = py::cast<py::tuple>(environment_.get().attr("_next_round")());
  const auto users = py::cast<Integers>(made[0]);
  const auto arms = py::cast<Floats>(made[1]);
  const auto count = static_cast<std::size_t>(arms.shape(0));
  const auto length = static_cast<std::size_t>(arms.shape(1));
  values_.assign(arms.data(), arms.data() + arms.size());
  round_.id = RoundId{next_id_++};
  round_.arms.assign(count, Arm{});
  for (std::size_t i = 0; i < count; ++i) {
    Arm& arm = round_.arms[i];
    arm.index = ArmIndex{static_cast<std::uint32_t>(i)};
    arm.user = UserId{static_cast<std::uint32_t>(users.data()[i])};
    arm.features.values = std::span<const float>(values_).subspan(i * length, length);
  }
  if (!made[2].is_none()) {
    const auto items = py::cast<Integers>(made[2]);
    for (std::size_t i = 0; i < count; ++i) {
      round_.arms[i].item = ItemId{static_cast<std::uint32_t>(items.data()[i])};
    }
  }
  if (!made[3].is_none()) {
    const auto offsets = py::cast<Integers>(made[3]);
    for (std::size_t i = 0; i < count; ++i) {
      round_.arms[i].features.offset = static_cast<std::uint32_t>(offsets.data()[i]);
    }
  }
  rewards_ = numbers_from(made[4]);
  expected_ = numbers_from(made[5]);
  return round_;
}

float PythonEnvironment::reward(ArmIndex arm) const {
  if (!rewards_.empty()) {
    return static_cast<float>(rewards_[index(arm)]);
  }
  const py::gil_scoped_acquire acquire;
  return py::cast<float>(environment_.get().attr("_reward")(index(arm)));
}

double PythonEnvironment::expected_reward(ArmIndex arm) const {
  if (!expected_.empty()) {
    return expected_[index(arm)];
  }
  const py::gil_scoped_acquire acquire;
  return py::cast<double>(environment_.get().attr("_expected_reward")(index(arm)));
}

std::vector<UserId> PythonEnvironment::true_cluster(ArmIndex arm) const {
  const py::gil_scoped_acquire acquire;
  return users_from(environment_.get().attr("_true_cluster")(index(arm)));
}

}  // namespace mcnb::python
