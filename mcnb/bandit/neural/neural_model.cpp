#include "mcnb/bandit/neural/neural_model.h"

#include <array>
#include <utility>

namespace mcnb {
namespace {

constexpr std::array kEverybody{UserId{0}};  // all users share one history

}  // namespace

OptionTable<NeuralOptions> neural_option_table() {
  using Options = NeuralOptions;
  OptionTable<Options> table;
  table.part(&Options::network, network_option_table())
      .choice("training", &Options::training,
              {{"replay", TrainingMode::kReplay}, {"online", TrainingMode::kOnline}},
              "replay: by a schedule, on all samples; online: one step on each sample as it comes")
      .number("online_rate", &Options::online_rate, {1e-9, 10.0},
              "learning rate of training=online")
      .part(&Options::replay, replay_option_table())
      .count("train_steps", &Options::train_steps, {0, 4294967295.0},
             "replay: the most steps of one training")
      .count("history_limit", &Options::history_limit, {0, 4294967295.0},
             "samples that trainings draw on, a uniform choice of all; 0: all");
  return table;
}

NeuralModel::NeuralModel(const NeuralOptions& options, std::uint32_t inputs, std::uint64_t seed)
    : options_(options),
      shape_(options.network.shape(inputs)),
      seed_(seed),
      network_(random_network(shape_, options.network.initialisation, seed)),
      history_(seed, static_cast<std::size_t>(options.history_limit)) {
  history_.add_users(kEverybody.size());
  before_.reserve(network_.size());
}

void refuse_step(const std::string& what) {
  throw Error(ErrorKind::kInput, what +
                                     ": the network would leave the finite numbers, and stays as "
                                     "it was: expected smaller rewards, features or learning "
                                     "rates");
}

std::optional<EventId> NeuralModel::take_in(const Sample& sample, const Where& where) {
  if (options_.training == TrainingMode::kReplay) {
    return history_.add(kEverybody, sample);
  }
  if (!take_damped_step(shape_, network_, sample, static_cast<float>(options_.online_rate),
                        step_scratch_)) {
    refuse_step(where());
  }
  ++steps_;
  return std::nullopt;
}

void NeuralModel::count_reward(const std::function<void()>& adopt) {
  ++rewards_;
  if (!options_.training_is_due(rewards_)) {
    return;
  }
  before_ = network_;
  try {
    Rng rng(seed_, Stream::kTrainingOrder, rewards_);
    const TrainingReport report =
        train_network(shape_, network_, history_.all_samples(),
                      options_.replay.training(options_.train_steps), rng, scratch_);
    if (!all_finite(network_)) {
      refuse_step(fmt::format("the training after {} rewards", rewards_));
    }
    adopt();
    steps_ += report.steps;
  } catch (...) {
    network_.swap(before_);
    throw;
  }
}

std::size_t NeuralModel::memory_bytes() const {
  return (network_.capacity() + before_.capacity()) * sizeof network_[0] + history_.memory_bytes() +
         scratch_.memory_bytes();
}

void NeuralModel::save(StateWriter& writer) const {
  writer.write(rewards_);
  writer.write(steps_);
  writer.write_all(network_);
  history_.save(writer);
}

void NeuralModel::load(StateReader& reader) {
  rewards_ = reader.read<std::uint64_t>();
  steps_ = reader.read<std::uint64_t>();
  std::vector<float> network = reader.read_all<float>(network_.size());
  if (network.size() != network_.size()) {
    reader.fail("the network has another size");
  }
  if (!all_finite(network)) {
    reader.fail("the network holds a number that is not finite");
  }
  network_ = std::move(network);
  history_.load(reader, shape_);
  if (history_.user_count() != kEverybody.size()) {
    reader.fail("there is not one history for all users");
  }
}

}  // namespace mcnb
