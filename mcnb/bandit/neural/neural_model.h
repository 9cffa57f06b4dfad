#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/neural/network_options.h"
#include "mcnb/bandit/neural/replay_options.h"
#include "mcnb/base/error.h"
#include "mcnb/base/options.h"
#include "mcnb/numeric/damped_step.h"
#include "mcnb/numeric/network.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

// The network and the training that all neural policies except M-CNB share, so that none wins by
// more of it.
//
// training = replay: trainings of at most `train_steps` single-sample steps over all samples, in
// random order, from the network's present parameters, with a fresh optimiser. A step is one
// sample's backward pass.
struct NeuralOptions {
  NetworkOptions network;
  TrainingMode training = TrainingMode::kReplay;
  double online_rate = 0.05;  // learning rate of training = online
  ReplayOptions replay;
  std::uint64_t train_steps = 1500;
  std::uint64_t history_limit = 0;  // samples that trainings draw on; 0: all

  // Whether a training is due after this number of rewards.
  bool training_is_due(std::uint64_t rewards) const {
    return training == TrainingMode::kReplay && replay.is_due(rewards);
  }
};

OptionTable<NeuralOptions> neural_option_table();

// Throws Error (kInput), naming where(), for a network's value that is not finite.
template <class Where>
void check_value(float value, Where where) {
  if (!std::isfinite(value)) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: the network's value is {}: expected smaller features or learning rates",
                    where(), value));
  }
}

// Throws Error (kInput) for a step or training that left the finite numbers and was undone; `what`
// names it.
[[noreturn]] void refuse_step(const std::string& what);

// One network for all users, the samples that it learns from, and its training. Its parameters stay
// finite: a step that would make them infinite is damped, and such a training is refused.
class NeuralModel {
 public:
  NeuralModel(const NeuralOptions& options, std::uint32_t inputs, std::uint64_t seed);

  const NetworkShape& shape() const { return shape_; }
  std::span<const float> network() const { return network_; }
  const Histories& history() const { return history_; }  // empty if training = online
  std::uint64_t reward_count() const { return rewards_; }
  std::uint64_t step_count() const { return steps_; }

  using Where = std::function<std::string()>;  // names a sample in errors

  // Adds a sample to the history for later trainings, and returns its id there; with training =
  // online, takes a step on it instead and returns nullopt. Start data comes here too. Throws Error
  // (kInput), and changes nothing, if the network has no finite value for the sample.
  std::optional<EventId> take_in(const Sample& sample, const Where& where);

  // Counts the reward of the latest sample. If a training is due, trains and then calls adopt(), so
  // that the owner can follow. Throws Error (kInput) if the training leaves the finite numbers, and
  // what adopt() throws; then the network is the one before the training, and the reward counts.
  void count_reward(const std::function<void()>& adopt = [] {});

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Expects a model made with the options, inputs and seed of the saved one.
  void load(StateReader& reader);

 private:
  NeuralOptions options_;
  NetworkShape shape_;
  std::uint64_t seed_;
  std::vector<float> network_;
  Histories history_;
  std::uint64_t rewards_ = 0;
  std::uint64_t steps_ = 0;
  TrainingScratch scratch_;
  std::vector<float> before_;  // scratch: the network before a training
  DampedStepScratch step_scratch_;
};

}  // namespace mcnb
