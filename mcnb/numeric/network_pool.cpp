#include "mcnb/numeric/network_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

const StateHeader kStateHeader{.kind = "network-pool", .version = 1};

// Work for one range of a parallel loop: large enough to hide its cost, small enough to share
// evenly.
constexpr std::size_t kParametersPerTurn = 64'000;
constexpr std::size_t kMostUsersPerTurn = 512;
constexpr std::size_t kArmsForOneRead = 4;  // that cost as much as reading the parameters once

std::size_t users_per_turn(std::size_t parameters_touched) {
  return std::clamp<std::size_t>(kParametersPerTurn / parameters_touched, 1, kMostUsersPerTurn);
}

void demand_finite(std::span<const float> parameters, const StateReader& reader) {
  if (!all_finite(parameters)) {
    reader.fail("a parameter is not a finite number");
  }
}

}  // namespace

void Predictions::resize(std::size_t arms, std::size_t users) {
  try {
    if (users > 0 && arms > values_.max_size() / users) {
      throw std::length_error("predictions");
    }
    values_.resize(arms * users);
  } catch (const std::exception&) {  // bad_alloc, or length_error
    throw Error(ErrorKind::kLimit,
                fmt::format("predictions: no memory for {} arms of {} users", arms, users));
  }
  arms_ = arms;
  users_ = users;
}

NetworkPool::NetworkPool(const NetworkShape& shape, std::vector<float> start)
    : shape_(shape), start_(std::move(start)) {
  shape_.validate();
  stride_ = shape_.parameter_count();
  if (start_.size() != stride_) {
    throw Error(ErrorKind::kUsage, fmt::format("start of the networks: expected {} parameters, got "
                                               "{}",
                                               stride_, start_.size()));
  }
  if (!all_finite(start_)) {
    throw Error(ErrorKind::kInput, "start of the networks: expected finite parameters");
  }
}

void NetworkPool::add_users(std::size_t count) {
  if (count == 0) {
    throw Error(ErrorKind::kUsage, "users to add: expected at least 1, got 0");
  }
  if (count > kMaxUsers - user_count()) {
    throw Error(ErrorKind::kLimit, fmt::format("users: a pool holds at most {}, {} + {} asked for",
                                               kMaxUsers, user_count(), count));
  }
  try {
    slots_.resize(slots_.size() + count, kShared);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kLimit, fmt::format("users: no memory for {} more", count));
  }
}

bool NetworkPool::is_distinct(UserId user) const {
  check(index(user) < user_count(), "the user is in the pool");
  return slots_[index(user)] != kShared;
}

std::span<const float> NetworkPool::parameters(UserId user) const {
  check(index(user) < user_count(), "the user is in the pool");
  return {network(index(user)), stride_};
}

void NetworkPool::set_parameters(UserId user, std::span<const float> parameters) {
  check(parameters.size() == stride_, "the parameters match the network's shape");
  if (!all_finite(parameters)) {
    throw Error(ErrorKind::kInput,
                fmt::format("parameters of user {}: expected finite numbers", index(user)));
  }
  // The source may point into the slab, which may move.
  const std::vector<float> copy(parameters.begin(), parameters.end());
  std::ranges::copy(copy, own_network(user));
}

float* NetworkPool::own_network(UserId user) {
  check(index(user) < user_count(), "the user is in the pool");
  std::uint32_t& slot = slots_[index(user)];
  if (slot == kShared) {
    slab_.grow((distinct_ + 1) * stride_);
    slot = static_cast<std::uint32_t>(distinct_++);
    std::ranges::copy(start_, slab_.data() + slot * stride_);
  }
  return slab_.data() + slot * stride_;
}

// Groups arms by block: arms of one block share one pass over its rows of W_1.
std::vector<kernels::ArmTile> NetworkPool::pack(std::span<const Features> arms) const {
  const std::size_t most = kernels::max_tile_arms();
  std::vector<kernels::ArmTile> tiles;
  for (std::size_t begin = 0; begin < arms.size();) {
    const Features& first = arms[begin];
    std::size_t end = begin + 1;
    while (end < arms.size() && arms[end].offset == first.offset &&
           arms[end].values.size() == first.values.size()) {
      ++end;
    }
    std::size_t pieces = (end - begin + most - 1) / most;
    for (; pieces > 0; --pieces) {
      const std::size_t count = (end - begin + pieces - 1) / pieces;
      kernels::ArmTile tile{.values = std::vector<float>(count * first.values.size()),
                            .arms = static_cast<std::uint32_t>(count),
                            .columns = static_cast<std::uint32_t>(first.values.size()),
                            .row = first.offset,
                            .first_arm = static_cast<std::uint32_t>(begin)};
      for (std::size_t arm = 0; arm < count; ++arm) {
        for (std::size_t i = 0; i < first.values.size(); ++i) {
          tile.values[i * count + arm] = arms[begin + arm].values[i];
        }
      }
      tiles.push_back(std::move(tile));
      begin += count;
    }
  }
  return tiles;
}

template <class UserAt>
void NetworkPool::predict_users(ThreadPool& threads, std::span<const Features> arms,
                                std::size_t count, UserAt user_at, Predictions& out) const {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    check_features(shape_, arms[i], fmt::format("arm {}", i));
    rows = std::max(rows, arms[i].values.size());
  }
  out.resize(arms.size(), count);
  if (arms.empty() || count == 0) {
    return;
  }
  const std::vector<kernels::ArmTile> tiles = pack(arms);

  // Predicts once for all users that still share the start.
  std::vector<float> shared(arms.size());
  if (distinct_ < user_count()) {
    const kernels::PredictTarget target{start_.data(), 0};
    kernels::predict(shape_, tiles, {&target, 1}, shared.data(), 1);
  }
  float* values = out.data();
  const std::size_t touched = (rows * shape_.width + stride_ - shape_.layer_offset(2)) *
                              std::max<std::size_t>(1, arms.size() / kArmsForOneRead);
  threads.parallel_for(count, distinct_ == 0 ? std::size_t{16'384} : users_per_turn(touched),
                       [&](std::size_t begin, std::size_t end) {
                         kernels::PredictTarget targets[kMostUsersPerTurn];
                         for (std::size_t column = begin; column < end;) {
                           std::size_t found = 0;
                           const std::size_t stop = std::min(end, column + kMostUsersPerTurn);
                           for (; column < stop; ++column) {
                             const std::uint32_t slot = slots_[user_at(column)];
                             if (slot != kShared) {
                               targets[found++] = {slab_.data() + slot * stride_, column};
                             } else {
                               for (std::size_t arm = 0; arm < shared.size(); ++arm) {
                                 values[arm * count + column] = shared[arm];
                               }
                             }
                           }
                           kernels::predict(shape_, tiles, {targets, found}, values, count);
                         }
                       });
}

void NetworkPool::predict(ThreadPool& threads, std::span<const Features> arms,
                          Predictions& out) const {
  predict_users(
      threads, arms, user_count(), [](std::size_t column) { return column; }, out);
}

void NetworkPool::predict(ThreadPool& threads, std::span<const Features> arms,
                          std::span<const UserId> users, Predictions& out) const {
  for (const UserId user : users) {
    check(index(user) < user_count(), "the user is in the pool");
  }
  predict_users(
      threads, arms, users.size(), [users](std::size_t column) { return index(users[column]); },
      out);
}

void NetworkPool::find_gradient(UserId user, const Features& features,
                                GradientFactors& factors) const {
  check_features(shape_, features, "gradient");
  mcnb::find_gradient(shape_, parameters(user), features, factors);
}

void NetworkPool::step(ThreadPool& threads, std::span<const UserId> users, const Sample& sample,
                       float rate) {
  check_sample(shape_, sample, "SGD step");
  if (!std::isfinite(rate)) {
    throw Error(ErrorKind::kInput, fmt::format("SGD step: the rate is {}, expected a finite "
                                               "number",
                                               rate));
  }
  // First gives every user memory, in the order of the list, so that no network moves afterwards.
  const std::size_t already_distinct = distinct_;
  for (std::size_t i = 0; i < users.size(); ++i) {
    check(index(users[i]) < user_count(), "the user is in the pool");
    check(i == 0 || users[i - 1] < users[i], "the users of a step are in ascending order");
  }
  const auto shared = static_cast<std::size_t>(
      std::ranges::count_if(users, [&](UserId user) { return !is_distinct(user); }));
  slab_.grow((distinct_ + shared) * stride_);
  for (const UserId user : users) {
    std::uint32_t& slot = slots_[index(user)];
    if (slot == kShared) {
      slot = static_cast<std::uint32_t>(distinct_++);
    }
  }
  const std::span<const float> x = sample.features.values;
  const std::uint32_t row = sample.features.offset;
  // Users that shared the start get equal networks: one step, then copies.
  std::vector<float> stepped;
  if (shared > 0) {
    stepped = start_;
    float* network = stepped.data();
    kernels::sgd_step(shape_, {&network, 1}, x, row, sample.reward, rate);
  }
  const std::size_t touched = x.size() * shape_.width + stride_ - shape_.layer_offset(2);
  threads.parallel_for(users.size(), users_per_turn(touched),
                       [&](std::size_t begin, std::size_t end) {
                         float* networks[kMostUsersPerTurn];
                         std::size_t found = 0;
                         for (std::size_t i = begin; i < end; ++i) {
                           const std::uint32_t slot = slots_[index(users[i])];
                           float* network = slab_.data() + slot * stride_;
                           if (slot < already_distinct) {
                             networks[found++] = network;
                           } else {
                             std::ranges::copy(stepped, network);
                           }
                         }
                         kernels::sgd_step(shape_, {networks, found}, x, row, sample.reward, rate);
                       });
}

TrainingReport NetworkPool::train(UserId user, std::span<const Sample> samples,
                                  const TrainingOptions& options, Rng& rng,
                                  TrainingScratch& scratch) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    check_sample(shape_, samples[i], fmt::format("training sample {}", i));
  }
  options.validate();
  if (samples.empty() || options.step_limit == 0) {
    return {};
  }
  return train_network(shape_, {own_network(user), stride_}, samples, options, rng, scratch);
}

std::size_t NetworkPool::memory_bytes() const {
  return sizeof *this + (start_.capacity() + distinct_ * stride_) * sizeof(float) +
         slots_.capacity() * sizeof(std::uint32_t);
}

void NetworkPool::save(StateWriter& writer) const {
  for (std::size_t user = 0; user < user_count(); ++user) {
    if (slots_[user] != kShared && !all_finite({network(user), stride_})) {
      throw Error(ErrorKind::kLimit,
                  fmt::format("network of user {}: it has diverged and is not saved; lower the "
                              "learning rate",
                              user));
    }
  }
  writer.write_string(kernels::simd_target());
  writer.write(shape_.inputs);
  writer.write(shape_.width);
  writer.write(shape_.depth);
  writer.write(static_cast<std::uint8_t>(shape_.biases));
  writer.write_all(start_);
  writer.write_all(slots_);
  writer.write(static_cast<std::uint64_t>(distinct_));
  writer.write_bytes(slab_.data(), distinct_ * stride_ * sizeof(float));
}

NetworkPool NetworkPool::load(StateReader& reader) {
  const std::string simd_target = reader.read_string(32);
  NetworkShape shape;
  shape.inputs = reader.read<std::uint32_t>();
  shape.width = reader.read<std::uint32_t>();
  shape.depth = reader.read<std::uint32_t>();
  shape.biases = reader.read<std::uint8_t>() != 0;
  try {
    shape.validate();
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  std::vector<float> start = reader.read_all<float>(shape.parameter_count());
  if (start.size() != shape.parameter_count()) {
    reader.fail("the start does not match the networks' shape");
  }
  demand_finite(start, reader);
  NetworkPool pool(shape, std::move(start));
  pool.saved_simd_target_ = simd_target;
  pool.slots_ = reader.read_all<std::uint32_t>(kMaxUsers);
  const auto distinct = reader.read<std::uint64_t>();
  // Every slot of the slab belongs to exactly one user.
  std::vector<bool> taken(
      static_cast<std::size_t>(std::min<std::uint64_t>(distinct, pool.slots_.size())));
  std::size_t found = 0;
  for (const std::uint32_t slot : pool.slots_) {
    if (slot == kShared) {
      continue;
    }
    if (slot >= taken.size() || taken[slot]) {
      reader.fail("the table of users does not match the networks");
    }
    taken[slot] = true;
    ++found;
  }
  if (found != distinct) {
    reader.fail("the table of users does not match the networks");
  }
  pool.slab_.grow(found * pool.stride_);
  pool.distinct_ = found;
  reader.read_bytes(pool.slab_.data(), found * pool.stride_ * sizeof(float));
  demand_finite({pool.slab_.data(), found * pool.stride_}, reader);
  return pool;
}

void NetworkPool::save_file(const std::string& path) const {
  save_state_file(path, kStateHeader, [this](StateWriter& writer) { save(writer); });
}

NetworkPool NetworkPool::load_file(const std::string& path) {
  std::optional<NetworkPool> pool;
  load_state_file(path, kStateHeader, [&](StateReader& reader) { pool.emplace(load(reader)); });
  return std::move(*pool);
}

}  // namespace mcnb
