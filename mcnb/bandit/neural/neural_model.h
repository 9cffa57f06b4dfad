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
#include "mcnb/base/error.h"
#include "mcnb/base/options.h"
#include "mcnb/numeric/network.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

enum class TrainingMode { kOnline, kReplay };

// The schedule of trainings: whether the reward of this number, from 1, is one to train after.
inline bool is_due(std::uint64_t rewards, std::uint64_t every, std::uint64_t often_until,
                   std::uint64_t every_later) {
  return rewards % (rewards <= often_until ? every : every_later) == 0;
}

// The network and the training that all neural policies beside M-CNB have alike, so that none wins
// by more of it.
//
// training = replay: after every so many rewards, `train_steps` single-sample steps over all
// samples, in random order, from where the network stands, with a fresh optimiser. A step is one
// sample's backward pass. training = online: one gradient step on each sample as it comes.
struct NeuralOptions {
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  Initialisation initialisation = Initialisation::kPaper;
  bool biases = false;
  TrainingMode training = TrainingMode::kReplay;
  double online_rate = 0.05;

  // Of training = replay.
  std::uint64_t train_every = 10;          // rewards, at first
  std::uint64_t train_often_until = 1000;  // rewards
  std::uint64_t train_every_later = 100;
  std::uint64_t train_steps = 1500;
  Optimiser optimiser = Optimiser::kAdam;
  double learning_rate = 1e-3;
  double stop_loss = 1e-3;

  std::uint64_t history_limit = 0;  // samples that trainings draw on; 0: all

  NetworkShape shape(std::uint32_t inputs) const;
  // Whether the reward of this number, from 1, is one to train after.
  bool training_is_due(std::uint64_t rewards) const;
  TrainingOptions training_of(std::uint64_t steps) const;
};

OptionTable<NeuralOptions> neural_option_table();

// Throws Error (kInput) for a network's value that is not finite; place() names where.
template <class Place>
void check_value(float value, Place place) {
  if (!std::isfinite(value)) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: the network's value is {}: expected smaller features or learning rates",
                    place(), value));
  }
}

// For a step or training that has left the finite numbers, and is undone; `what` names it.
[[noreturn]] void refuse_step(const std::string& what);

// One network for all users, the samples it learns from, and its training. The network's numbers
// stay finite, whatever the samples: a step or a training that would end elsewhere is refused.
class NeuralModel {
 public:
  NeuralModel(const NeuralOptions& options, std::uint32_t inputs, std::uint64_t seed);

  const NetworkShape& shape() const { return shape_; }
  std::span<const float> network() const { return network_; }
  const Histories& history() const { return history_; }  // empty where training = online
  std::uint64_t reward_count() const { return rewards_; }
  std::uint64_t step_count() const { return steps_; }

  using Place = std::function<std::string()>;  // names a sample in errors

  // Takes a sample into the history, for the trainings to come, and returns its place there; or,
  // with training = online, takes a step on it. Start data are such samples too, but no rewards.
  // Throws Error (kInput) before anything changes where the step would leave the finite numbers.
  std::optional<EventId> take_in(const Sample& sample, const Place& place);

  // Counts the reward of the sample taken in last; trains where a training is due, and then calls
  // adopt() for the owner to follow. Throws Error (kInput) where the training leaves the finite
  // numbers, and what adopt() throws: then the network is the one from before the training, and the
  // reward is counted.
  void count_reward(const std::function<void()>& adopt = [] {});

  std::size_t memory_bytes() const;
  void save(StateWriter& writer) const;
  // Into a model made with the same options, inputs and seed.
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
  std::vector<float> before_;  // the network before a step or training: memory to be reused
};

}  // namespace mcnb
