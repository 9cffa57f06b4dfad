#include "mcnb/bandit/mcnb/replay_training.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb {
namespace {

std::vector<float> copy_of(std::span<const float> parameters) {
  return {parameters.begin(), parameters.end()};
}

}  // namespace

bool ReplayTraining::is_due(std::uint64_t feedback) const {
  return options_.training == TrainingMode::kReplay && options_.replay.is_due(feedback);
}

// The two trainings run side by side: neither changes what the other reads.
ReplayReport ReplayTraining::train(ThreadPool& threads, std::uint64_t feedback, UserId learner,
                                   const Histories& histories, NetworkPool& learners,
                                   MetaLearner& meta) {
  const std::vector<float> user_before = copy_of(learners.parameters(learner));
  const std::vector<float> meta_before = copy_of(meta.parameters());
  TrainingReport user_report;
  TrainingReport meta_report;
  threads.parallel_for(2, 1, [&](std::size_t which, std::size_t) {
    Rng order(seed_, Stream::kTrainingOrder, feedback, static_cast<std::uint32_t>(which));
    if (which == 0) {
      user_report =
          learners.train(learner, histories.samples_of(learner),
                         options_.replay.training(options_.user_steps), order, user_scratch_);
    } else {
      meta_report =
          train_network(learners.shape(), meta.parameters(), histories.all_samples(),
                        options_.replay.training(options_.theta_steps), order, meta_scratch_);
    }
  });
  const ReplayReport report{.steps = user_report.steps + meta_report.steps,
                            .user_diverged = !all_finite(learners.parameters(learner)),
                            .meta_diverged = !all_finite(meta.parameters())};
  if (report.user_diverged) {
    learners.set_parameters(learner, user_before);
  }
  if (report.meta_diverged) {
    std::ranges::copy(meta_before, meta.parameters().begin());
  }
  return report;
}

}  // namespace mcnb
