#include "python/src/bandit.h"

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <chrono>
#include <limits>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/evaluate/log_training.h"
#include "mcnb/numeric/network_pool.h"

namespace mcnb::python {
namespace {

constexpr std::size_t kLearnedAtOnce = 1024;  // rewards between two checks for Ctrl-C

std::vector<Score> flat(std::vector<std::vector<Score>> scores) {
  std::vector<Score> all;
  for (const std::vector<Score>& some : scores) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// An array that owns its numbers.
template <class T>
py::array_t<T> array_from(std::vector<T> values, const Shape& shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const py::capsule owner(kept, [](void* memory) { delete static_cast<std::vector<T>*>(memory); });
  return py::array_t<T>(shape, kept->data(), owner);
}

// Scores as a structured array, with a field for each part that the policy names.
py::array scores_array(const std::vector<Score>& scores, const Shape& shape) {
  py::list fields;
  const auto add_field = [&](const char* name, const char* type) {
    fields.append(py::make_tuple(name, type));
  };
  const std::span<const ScorePart> parts =
      scores.empty() ? std::span<const ScorePart>() : scores.front().parts();
  add_field("value", "f8");
  add_field("estimate", "f8");
  for (const ScorePart& part : parts) {
    add_field(part.name, "f8");
  }
  add_field("cluster_size", "u8");
  const bool estimated = std::ranges::any_of(
      scores, [](const Score& score) { return score.cluster_sample.has_value(); });
  if (estimated) {
    add_field("cluster_found", "u8");
    add_field("cluster_visited", "u8");
  }
  add_field("considered", "?");
  py::array array(py::dtype::from_args(fields), shape);
  const auto fill = [&](const char* name, auto value_of) {
    using Value = decltype(value_of(scores.front()));
    py::array_t<Value> column(shape);
    std::ranges::transform(scores, column.mutable_data(), value_of);
    array[name] = column;
  };
  fill("value", [](const Score& score) { return score.value; });
  fill("estimate", [](const Score& score) { return score.estimate; });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    fill(parts[i].name, [i](const Score& score) { return score.parts()[i].value; });
  }
  fill("cluster_size", [](const Score& score) { return score.cluster_size; });
  if (estimated) {
    const auto sample_of = [](const Score& score) {
      return score.cluster_sample.value_or(ClusterSample{});
    };
    fill("cluster_found", [&](const Score& score) { return sample_of(score).found; });
    fill("cluster_visited", [&](const Score& score) { return sample_of(score).visited; });
  }
  fill("considered", [](const Score& score) { return score.considered; });
  return array;
}

Shape shape_of(const RoundsRead& read, std::size_t arms) {
  const auto count = static_cast<py::ssize_t>(arms);
  return read.batch ? Shape{static_cast<py::ssize_t>(read.rounds.size()), count} : Shape{count};
}

std::size_t arm_count(const RoundsRead& read) {
  return static_cast<std::size_t>(read.features.shape(read.features.ndim() - 2));
}

}  // namespace

Model::Model(const BanditSetup& setup)
    : user_features(setup.user_features),
      threads(setup.threads),
      policy(make_policy(setup.policy, {.inputs = setup.features,
                                        .users = setup.users,
                                        .seed = setup.seed,
                                        .threads = &threads,
                                        .user_features = user_features,
                                        .user_feature_count = setup.user_feature_count,
                                        .block_length = setup.block,
                                        .device = setup.device})) {}

Bandit::Bandit(const BanditSetup& setup)
    : setup_(setup), model_(std::make_shared<Model>(setup)), users_(model_->policy->user_count()) {}

RoundsRead Bandit::read(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                        py::handle round) {
  return read_rounds(limits(), user, arms, items, offsets, round);
}

// Gives rounds without an id the next free ids.
void Bandit::number(RoundsRead& read) const {
  for (std::size_t i = 0; i < read.rounds.size(); ++i) {
    read.rounds[i].id = RoundId{read.ids.empty() ? next_round_ + i : read.ids[i]};
  }
}

Bandit::Scores Bandit::all_scores(RoundsRead& read, bool of_last_choose) {
  const BanditLock lock(mutex_);
  number(read);
  if (of_last_choose && read.ids.empty()) {
    decided_.name_again(read.rounds);
  }
  Scores scores;
  if (!read.batch) {
    scores.push_back(model_->policy->scores(read.rounds[0]));
  } else if (!read.rounds.empty()) {
    scores = model_->policy->scores_of(read.rounds);
  }
  return scores;
}

py::object Bandit::choose(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                          py::handle round) {
  RoundsRead rounds = read(user, arms, items, offsets, round);
  std::vector<std::int64_t> chosen(rounds.rounds.size());
  {
    const BanditLock lock(mutex_);
    number(rounds);
    if (!rounds.batch) {
      chosen[0] = static_cast<std::int64_t>(model_->policy->choose(rounds.rounds[0]));
    } else if (!chosen.empty()) {
      const Scores scores = model_->policy->scores_of(rounds.rounds);
      std::ranges::transform(scores, chosen.begin(), [](const std::vector<Score>& some) {
        return static_cast<std::int64_t>(highest(some));
      });
    }
    if (!chosen.empty()) {  // an empty batch keeps the previous decisions
      waiting_.clear();
      decided_.remember(rounds.rounds);
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      waiting_.push_back({rounds.rounds[i].id, ArmIndex{static_cast<std::uint32_t>(chosen[i])}});
      next_round_ = std::max<std::uint64_t>(next_round_, index(rounds.rounds[i].id) + 1);
    }
  }
  if (!rounds.batch) {
    return py::int_(chosen[0]);
  }
  const Shape shape{static_cast<py::ssize_t>(chosen.size())};
  return array_from(std::move(chosen), shape);
}

py::object Bandit::predict(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                           py::handle round, bool exploit) {
  RoundsRead rounds = read(user, arms, items, offsets, round);
  std::vector<std::int64_t> chosen;
  for (std::vector<Score>& some : all_scores(rounds, false)) {
    if (exploit) {
      for (Score& score : some) {
        score.value = score.estimate;
      }
    }
    chosen.push_back(static_cast<std::int64_t>(highest(some)));
  }
  if (!rounds.batch) {
    return py::int_(chosen[0]);
  }
  const Shape shape{static_cast<py::ssize_t>(chosen.size())};
  return array_from(std::move(chosen), shape);
}

py::object Bandit::scores(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                          py::handle round) {
  RoundsRead rounds = read(user, arms, items, offsets, round);
  return scores_array(flat(all_scores(rounds, true)), shape_of(rounds, arm_count(rounds)));
}

py::object Bandit::expectations(py::handle user, py::handle arms, py::handle items,
                                py::handle offsets, py::handle round) {
  RoundsRead rounds = read(user, arms, items, offsets, round);
  std::vector<double> estimates;
  for (const Score& score : flat(all_scores(rounds, true))) {
    estimates.push_back(score.estimate);
  }
  return array_from(std::move(estimates), shape_of(rounds, arm_count(rounds)));
}

py::object Bandit::cluster(py::handle user, py::handle arm, py::handle item, py::handle offset) {
  const ArmsRead read =
      read_arms(limits(), user, arm, nullptr, item, offset, py::none(), py::none());
  std::vector<std::optional<std::vector<UserId>>> found;
  {
    const BanditLock lock(mutex_);
    for (const RewardedArm& one : read.arms) {
      found.push_back(model_->policy->cluster(one.arm));
    }
  }
  const auto members = [](const std::optional<std::vector<UserId>>& cluster) -> py::object {
    if (!cluster) {
      return py::none();
    }
    std::vector<std::int64_t> ids(cluster->size());
    std::ranges::transform(*cluster, ids.begin(),
                           [](UserId id) { return static_cast<std::int64_t>(id); });
    const Shape shape{static_cast<py::ssize_t>(ids.size())};
    return array_from(std::move(ids), shape);
  };
  if (!read.batch) {
    return members(found[0]);
  }
  py::list all;
  for (const auto& cluster : found) {
    all.append(members(cluster));
  }
  return all;
}

// Finds the decisions that feedback belongs to; changes nothing. Without round ids these are those
// of the last choose, in order; if they are too few, all feedback gets new round ids.
void Bandit::address(ArmsRead& read) const {
  if (!read.has_rounds) {
    const bool known = read.arms.size() <= waiting_.size();
    for (std::size_t i = 0; i < read.arms.size(); ++i) {
      const Decision decision = known ? waiting_[i] : Decision{RoundId{next_round_ + i}, {}};
      read.arms[i].round = decision.round;
      if (!read.has_indices) {
        read.arms[i].arm.index = decision.arm;
      }
    }
    return;
  }
  if (read.has_indices) {
    return;
  }
  // A decision has one reward, so a batch can use each decision only once.
  std::deque<Decision> left;
  if (read.batch) {
    left = waiting_;
  }
  for (RewardedArm& one : read.arms) {
    const std::deque<Decision>& waiting = read.batch ? left : waiting_;
    const auto found = std::ranges::find(waiting, one.round, &Decision::round);
    if (found == waiting.end()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("index: expected the arm's index in round {}, which is not of the "
                              "last decision, got None",
                              index(one.round)));
    }
    one.arm.index = found->arm;
    if (read.batch) {
      left.erase(found);
    }
  }
}

// Removes the decisions that have had their feedback from the waiting ones.
void Bandit::settle(const ArmsRead& read) {
  if (read.has_rounds) {
    for (const RewardedArm& one : read.arms) {
      const auto found = std::ranges::find(waiting_, one.round, &Decision::round);
      if (found != waiting_.end()) {
        waiting_.erase(found);
      }
      next_round_ = std::max<std::uint64_t>(next_round_, index(one.round) + 1);
    }
  } else if (read.arms.size() <= waiting_.size()) {
    waiting_.erase(waiting_.begin(),
                   waiting_.begin() + static_cast<std::ptrdiff_t>(read.arms.size()));
  } else {
    next_round_ += read.arms.size();
  }
}

// Learns many rewards in pieces and checks for Ctrl-C between them.
void Bandit::learn(py::handle user, py::handle arm, py::handle reward, py::handle item,
                   py::handle offset, py::handle round, py::handle index) {
  ArmsRead read = read_arms(limits(), user, arm, &reward, item, offset, round, index);
  {
    const BanditLock lock(mutex_);
    address(read);
    if (!read.batch) {
      model_->policy->learn(read.arms[0].round, read.arms[0].arm, read.arms[0].reward);
    }
    settle(read);
  }
  if (!read.batch) {
    return;
  }
  const std::span<const RewardedArm> all(read.arms);
  std::size_t refused = 0;
  std::string first;  // the first refusal: which reward, and why
  for (std::size_t begin = 0; begin < all.size(); begin += kLearnedAtOnce) {
    {
      const BanditLock lock(mutex_);
      const std::vector<Refusal> some = model_->policy->learn_all(
          all.subspan(begin, std::min(kLearnedAtOnce, all.size() - begin)));
      if (refused == 0 && !some.empty()) {
        first = fmt::format("reward[{}]: {}", begin + some[0].index, some[0].why.what());
      }
      refused += some.size();
    }
    if (PyErr_CheckSignals() != 0) {
      throw py::error_already_set();
    }
  }
  if (refused > 0) {
    throw Error(ErrorKind::kInput,
                fmt::format("reward: {} of {} were refused, the others are learned; {}", refused,
                            all.size(), first));
  }
}

void Bandit::start(py::handle user, py::handle arm, py::handle reward, py::handle offset) {
  const ArmsRead read =
      read_arms(limits(), user, arm, &reward, py::none(), offset, py::none(), py::none());
  const BanditLock lock(mutex_);
  for (const RewardedArm& one : read.arms) {
    model_->policy->start(one.arm.user, {one.arm.features, one.reward});
  }
}

void Bandit::decide(py::handle arm) {
  const std::int64_t chosen = one_whole(arm, "arm", 0, kMostArms - 1);
  const BanditLock lock(mutex_);
  if (waiting_.size() != 1) {
    throw py::value_error("decide: expected one decision before");
  }
  waiting_.front().arm = ArmIndex{static_cast<std::uint32_t>(chosen)};
}

std::uint32_t Bandit::user_number(const std::string& name) {
  const BanditLock lock(mutex_);
  const UserId user = names_.of(name, *model_->policy);
  users_ = model_->policy->user_count();
  return static_cast<std::uint32_t>(user);
}

std::vector<std::string> Bandit::user_names() {
  const BanditLock lock(mutex_);
  return names_.names();
}

std::uint64_t Bandit::learn_log(const Log& log, std::uint64_t passes, bool weighted,
                                double most_weight) {
  if (setup_.block > 0) {
    throw py::value_error("fit: expected a bandit without blocks");
  }
  const TrainingWeights weights{.importance = weighted, .most = most_weight};
  const BanditLock lock(mutex_);
  RoundFeatures features(setup_.features);
  std::uint64_t learned = 0;
  waiting_.clear();
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    log.read(true, [&](const LoggedRound& round) {
      const std::uint64_t number = next_round_++;
      if (round.excluded || !round.reward) {
        return;
      }
      const std::span<const float> numbers = features.of(round);
      if (features.dimension() != setup_.features) {
        throw Error(ErrorKind::kInput,
                    fmt::format("log: expected {} features, as the bandit has, got {}",
                                setup_.features, features.dimension()));
      }
      learn_round(*model_->policy, names_, {number, round, numbers}, weights, setup_.seed);
      users_ = model_->policy->user_count();
      ++learned;
    });
  }
  return learned;
}

void Bandit::add_users(py::handle count) {
  const std::int64_t more = one_whole(count, "count", 1, NetworkPool::kMaxUsers);
  const BanditLock lock(mutex_);
  model_->policy->add_users(static_cast<std::size_t>(more));
  users_ = model_->policy->user_count();
}

UserId Bandit::known_user(py::handle user, const char* name) const {
  const auto most = static_cast<std::int64_t>(users()) - 1;
  return UserId{static_cast<std::uint32_t>(one_whole(user, name, 0, most))};
}

bool Bandit::forget(py::handle user) {
  const UserId known = known_user(user, "user");
  const BanditLock lock(mutex_);
  return model_->policy->forget(known);
}

void Bandit::reset() {
  const BanditLock lock(mutex_);
  model_ = std::make_shared<Model>(setup_);
  if (names_.names().size() > model_->policy->user_count()) {  // users with names stay known
    model_->policy->add_users(names_.names().size() - model_->policy->user_count());
  }
  next_round_ = 0;
  waiting_.clear();
  decided_.clear();
  users_ = model_->policy->user_count();
}

std::optional<std::uint64_t> Bandit::last_round() {
  const BanditLock lock(mutex_);
  return next_round_ == 0 ? std::nullopt : std::optional(next_round_ - 1);
}

std::size_t Bandit::memory_bytes() {
  const BanditLock lock(mutex_);
  return model_->policy->memory_bytes();
}

StepCounts Bandit::steps() {
  const BanditLock lock(mutex_);
  return model_->policy->steps();
}

double Bandit::time_choose(py::handle user, py::handle arms, py::handle rounds) {
  const std::int64_t count = one_whole(rounds, "rounds", 1, std::numeric_limits<int>::max());
  RoundsRead one = read(user, arms, py::none(), py::none(), py::none());
  const BanditLock lock(mutex_);
  number(one);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    one.rounds[0].id = RoundId{next_round_++};
    model_->policy->choose(one.rounds[0]);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(count);
}

}  // namespace mcnb::python
