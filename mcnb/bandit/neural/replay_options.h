#pragma once

#include <cstdint>

#include "mcnb/base/options.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

// online: one gradient step on each sample as it comes. replay: trainings on the history.
enum class TrainingMode { kOnline, kReplay };

// When and how a policy with training = replay trains on its history.
struct ReplayOptions {
  std::uint64_t train_every = 10;          // rewards, at first
  std::uint64_t train_often_until = 1000;  // rewards
  std::uint64_t train_every_later = 100;   // rewards
  Optimiser optimiser = Optimiser::kAdam;
  double learning_rate = 1e-3;
  double stop_loss = 1e-3;

  // Whether a training is due after this number of rewards.
  bool is_due(std::uint64_t rewards) const;
  // A training of at most `steps` steps.
  TrainingOptions training(std::uint64_t steps) const;
};

OptionTable<ReplayOptions> replay_option_table();

}  // namespace mcnb
