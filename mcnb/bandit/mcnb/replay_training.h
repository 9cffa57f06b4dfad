#pragma once

#include <cstddef>
#include <cstdint>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"
#include "mcnb/bandit/mcnb/meta_learner.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/network_pool.h"
#include "mcnb/numeric/training.h"

namespace mcnb {

struct ReplayReport {
  std::uint64_t steps = 0;  // of both trainings
  bool user_diverged = false;
  bool meta_diverged = false;
};

// training = replay: trains a user-learner and the meta-learner on stored events.
class ReplayTraining {
 public:
  ReplayTraining(const McnbOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  // Whether a training is due after the feedback of this number, from 1.
  bool is_due(std::uint64_t feedback) const;

  // Trains `learner` on its own history and `meta` on every stored event, in orders addressed by
  // the number of the feedback. A training that leads to numbers that are not finite is undone and
  // reported as diverged.
  ReplayReport train(ThreadPool& threads, std::uint64_t feedback, UserId learner,
                     const Histories& histories, NetworkPool& learners, MetaLearner& meta);

  std::size_t memory_bytes() const {
    return user_scratch_.memory_bytes() + meta_scratch_.memory_bytes();
  }

 private:
  McnbOptions options_;
  std::uint64_t seed_;
  TrainingScratch user_scratch_;
  TrainingScratch meta_scratch_;
};

}  // namespace mcnb
