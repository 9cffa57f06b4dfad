#include "mcnb/bandit/neural/replay_options.h"

namespace mcnb {

bool ReplayOptions::is_due(std::uint64_t rewards) const {
  return rewards % (rewards <= train_often_until ? train_every : train_every_later) == 0;
}

TrainingOptions ReplayOptions::training(std::uint64_t steps) const {
  return {.optimiser = optimiser,
          .learning_rate = static_cast<float>(learning_rate),
          .step_limit = steps,
          .stop_loss = stop_loss};
}

OptionTable<ReplayOptions> replay_option_table() {
  using Options = ReplayOptions;
  OptionTable<Options> table;
  table.count("train_every", &Options::train_every, {1, 1e9}, "replay: rewards between trainings")
      .count("train_often_until", &Options::train_often_until, {0, 1e15},
             "replay: after this many rewards trainings become rarer")
      .count("train_every_later", &Options::train_every_later, {1, 1e9},
             "replay: rewards between the rarer trainings")
      .choice("optimiser", &Options::optimiser,
              {{"adam", Optimiser::kAdam}, {"sgd", Optimiser::kSgd}}, "replay: the optimiser")
      .number("learning_rate", &Options::learning_rate, {0, 1000, true},
              "replay: learning rate of the optimiser")
      .number("stop_loss", &Options::stop_loss, {0, 1e9},
              "replay: a training ends when an epoch's mean loss is at most this");
  return table;
}

}  // namespace mcnb
