#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

enum class Optimiser { kSgd, kAdam };

struct TrainingOptions {
  Optimiser optimiser = Optimiser::kAdam;
  float learning_rate = 1e-3F;
  std::uint64_t step_limit = 1000;  // a step is one sample's backward pass
  double stop_loss = 1e-3;          // ends when an epoch's mean of (f - r)^2 / 2 is no larger

  // Throws Error (kUsage) naming the field.
  void validate() const;
};

struct TrainingReport {
  std::uint64_t steps = 0;
  std::uint64_t epochs = 0;      // whole passes over the samples
  double last_epoch_loss = 0.0;  // mean over the last whole pass, each before its own step
  bool stopped_by_loss = false;
};

// Working memory of train_network; reuse it from call to call.
struct TrainingScratch {
  std::vector<std::uint32_t> order;
  GradientFactors factors;
  std::vector<float> moments;               // Adam's
  std::vector<std::uint32_t> row_steps;     // Adam's step count of every row of W_1
  std::vector<std::uint8_t> row_has_moved;  // 1 after the first gradient that is not zero

  std::size_t memory_bytes() const;  // without sizeof *this
};

// Trains one network by single-sample steps over the samples, in a new random order each epoch.
// Each call starts a new optimiser. Adam is lazy on block features: a row of W_1 that a sample does
// not use keeps its weights, moments and step count (exact Adam would change all of W_1 in every
// step). Requires samples that check_sample accepts.
TrainingReport train_network(const NetworkShape& shape, std::span<float> network,
                             std::span<const Sample> samples, const TrainingOptions& options,
                             Rng& rng, TrainingScratch& scratch);

}  // namespace mcnb
