#include "mcnb/bandit/linear/linear_users.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/input_names.h"
#include "mcnb/base/check.h"

namespace mcnb {

void LinearUsers::check_round(const Round& round) const {
  mcnb::check_round(round, count(), shape_);
  blocks_.check(round);
}

void LinearUsers::check_arm(const Arm& arm) const {
  mcnb::check_arm(arm, count(), shape_);
  blocks_.check(arm.features, [&] { return fmt::format("arm {}", index(arm.index)); });
}

void LinearUsers::check_feedback(RoundId round, const Arm& arm, float reward) const {
  mcnb::check_feedback(round, arm, reward, count(), shape_);
  blocks_.check(arm.features, [&] { return feedback_name(round, arm); });
}

void LinearUsers::check_start(UserId user, const Sample& sample) const {
  mcnb::check_start(user, sample, count(), shape_);
  blocks_.check(sample.features, [&] { return start_name(user); });
}

const LinearState* LinearUsers::find(UserId user) const {
  const std::optional<std::uint32_t> found = row(user);
  return found ? &rows_[*found].state : nullptr;
}

std::uint64_t LinearUsers::sample_count(UserId user) const {
  const LinearState* state = find(user);
  return state == nullptr ? 0 : state->sample_count();
}

LinearUsers::Added LinearUsers::add(UserId user, const Features& features, double reward) {
  const std::uint32_t block = blocks_.find_or_add(features);
  const std::uint32_t row = known_.meet(user);
  if (row == rows_.size()) {
    rows_.push_back({LinearState(lambda_), {}});
    widths_.push_back(0.0);
  }
  LinearState& state = rows_[row].state;
  const std::size_t blocks_before = state.block_count();
  const std::size_t position = state.add(block, features.values, reward);
  if (state.block_count() > blocks_before) {
    make_slot(row, position);
  }
  copy_weights(row, position);
  widths_[row] = confidence_width(state.sample_count());
  return {row, block};
}

void LinearUsers::make_slot(std::uint32_t row, std::size_t position) {
  const LinearState& state = rows_[row].state;
  const std::uint32_t block = state.block(position);
  weights_.resize(std::max(weights_.size(), block + std::size_t{1}));
  BlockWeights& weights = weights_[block];
  std::vector<std::uint32_t>& slots = rows_[row].slots;
  slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(position),
               static_cast<std::uint32_t>(weights.rows.size()));
  weights.length = state.ridge(position).dimension();
  weights.rows.push_back(row);
  weights.values.resize(weights.values.size() + weights.length);
}

void LinearUsers::copy_weights(std::uint32_t row, std::size_t position) {
  const RidgeState& ridge = rows_[row].state.ridge(position);
  std::vector<double>& values = weights_[rows_[row].state.block(position)].values;
  std::copy_n(ridge.weights().data(), ridge.dimension(),
              values.data() + rows_[row].slots[position] * ridge.dimension());
}

double LinearUsers::distance(UserId a, UserId b) const {
  const LinearState* first = find(a);
  const LinearState* second = find(b);
  if (first == nullptr || second == nullptr) {
    const LinearState* only = first == nullptr ? second : first;
    return only == nullptr ? 0.0 : std::sqrt(only->squared_norm());
  }
  return std::sqrt(first->squared_distance(*second));
}

std::span<const double> LinearUsers::weights(std::uint32_t row, std::uint32_t block) const {
  const std::span<const double> all(weights_[block].values);
  const std::size_t length = weights_[block].length;
  if (weights_.size() == 1) {  // one block: slots are rows
    return all.subspan(row * length, length);
  }
  const LinearState& state = rows_[row].state;
  const std::size_t position = state.position_of(block);
  if (position == state.block_count() || state.block(position) != block) {
    return {};
  }
  return all.subspan(rows_[row].slots[position] * length, length);
}

double LinearUsers::squared_distance(std::uint32_t row, std::uint32_t other_row) const {
  if (weights_.size() == 1) {
    return mcnb::squared_distance(weights(row, 0), weights(other_row, 0));
  }
  return rows_[row].state.squared_distance(rows_[other_row].state);
}

void LinearUsers::squared_distances(const LinearState& from, std::vector<double>& squares) const {
  squares.assign(rows_.size(), 0.0);
  std::vector<double> of_block;
  for (std::size_t block = 0; block < weights_.size(); ++block) {
    const BlockWeights& weights = weights_[block];
    const std::size_t length = weights.length;
    const RidgeState* ridge = from.find(static_cast<std::uint32_t>(block));
    const auto slot = [&](std::size_t i) {
      return std::span(weights.values).subspan(i * length, length);
    };
    if (ridge == nullptr) {
      for (std::size_t i = 0; i < weights.rows.size(); ++i) {
        squares[weights.rows[i]] += mcnb::squared_norm(slot(i));
      }
      continue;
    }
    const std::span<const double> own(ridge->weights().data(), length);
    if (weights.rows.size() == rows_.size()) {
      for (std::size_t i = 0; i < weights.rows.size(); ++i) {
        squares[weights.rows[i]] += mcnb::squared_distance(own, slot(i));
      }
      continue;
    }
    of_block.assign(rows_.size(), mcnb::squared_norm(own));  // for users who lack the block
    for (std::size_t i = 0; i < weights.rows.size(); ++i) {
      of_block[weights.rows[i]] = mcnb::squared_distance(own, slot(i));
    }
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      squares[row] += of_block[row];
    }
  }
}

RidgePrediction LinearUsers::predict(const LinearState* state, const Features& features) const {
  const std::optional<std::uint32_t> block =
      state == nullptr ? std::nullopt : blocks_.find(features);
  return mcnb::predict(block ? state->find(*block) : nullptr, features.values, lambda_);
}

std::size_t LinearUsers::memory_bytes() const {
  std::size_t bytes = sizeof *this - sizeof known_ + known_.memory_bytes() +
                      blocks_.memory_bytes() + rows_.capacity() * sizeof rows_[0] +
                      widths_.capacity() * sizeof widths_[0] +
                      weights_.capacity() * sizeof weights_[0];
  for (const Row& row : rows_) {
    bytes +=
        row.state.memory_bytes() - sizeof row.state + row.slots.capacity() * sizeof row.slots[0];
  }
  for (const BlockWeights& weights : weights_) {
    bytes += weights.rows.capacity() * sizeof weights.rows[0] +
             weights.values.capacity() * sizeof weights.values[0];
  }
  return bytes;
}

void LinearUsers::save(StateWriter& writer) const {
  known_.save(writer);
  blocks_.save(writer);
  for (const Row& row : rows_) {
    row.state.save(writer);
  }
}

void LinearUsers::load(StateReader& reader) {
  known_.load(reader);
  blocks_.load(reader, shape_);
  rows_.clear();
  widths_.clear();
  weights_.clear();
  const std::vector<std::uint32_t> lengths = blocks_.lengths();
  for (std::uint32_t row = 0; row < known_.count(); ++row) {
    rows_.push_back({LinearState(lambda_), {}});
    LinearState& state = rows_.back().state;
    state.load(reader, lengths);
    if (state.sample_count() == 0) {
      reader.fail("a known user has no samples");
    }
    widths_.push_back(confidence_width(state.sample_count()));
    for (std::size_t position = 0; position < state.block_count(); ++position) {
      make_slot(row, position);
      copy_weights(row, position);
    }
  }
}

}  // namespace mcnb
