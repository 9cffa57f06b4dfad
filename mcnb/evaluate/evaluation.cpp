#include "mcnb/evaluate/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/evaluate/estimate/reward_model.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/slot_estimates.h"

namespace mcnb {
namespace {

constexpr std::string_view kReplay = "replay=";
constexpr std::string_view kProgressive = "progressive=";

struct Learner {
  std::string name;
  LearningPolicy policy;
};

bool is_used(const LoggedRound& round) { return !round.excluded && round.reward.has_value(); }

class LogEvaluation {
 public:
  LogEvaluation(const ReadRounds& read, const EvaluationOptions& options, ThreadPool& threads)
      : read_(read), options_(options), threads_(threads), features_(options.dimension) {
    rows_.push_back({.name = "logged", .rows = {}});
    for (const std::string& name : options.policies) {
      if (!name.starts_with(kReplay) && !name.starts_with(kProgressive)) {
        add_target(name);
      }
    }
    shown_ = targets_.size();
    if (options.baseline != "logged") {
      add_target(options.baseline);
    }
    has_learners_ = shown_ < options.policies.size();
    with_model_ = std::ranges::any_of(options.estimators, uses_model) && !targets_.empty();
    needs_features_ =
        with_model_ || has_learners_ ||
        std::ranges::any_of(targets_, [](const auto& target) { return target->needs_features(); });
  }

  Evaluation run() {
    check_policies();  // before anything is read
    look();
    refuse_certain_log();
    add_learners();
    play();
    estimate();
    warn();
    return std::move(result_);
  }

 private:
  void add_target(const std::string& name) {
    targets_.push_back(make_target_policy(name, threads_));
    rows_.push_back({.name = name, .rows = {}});
  }

  void check_policies() const {
    for (const std::string& name : options_.policies) {
      for (const std::string_view method : {kReplay, kProgressive}) {
        if (name.starts_with(method)) {
          parse_policy(name.substr(method.size()));
        }
      }
    }
  }

  // Learning policies need to know the least probability of the log.
  void add_learners() {
    for (const std::string& name : options_.policies) {
      const bool replays = name.starts_with(kReplay);
      if (!replays && !name.starts_with(kProgressive)) {
        continue;
      }
      const std::size_t prefix = (replays ? kReplay : kProgressive).size();
      learners_.push_back(
          {name, LearningPolicy(replays ? LearningPolicy::Method::kReplay
                                        : LearningPolicy::Method::kProgressive,
                                parse_policy(name.substr(prefix)), result_.log.least_probability,
                                options_.seed, threads_)});
    }
  }

  // The first time through the log: its health, and the model of the rewards.
  void look() {
    read_(needs_features_, [&](const LoggedRound& round) {
      result_.excluded += round.excluded ? 1 : 0;
      result_.unrewarded += !round.excluded && !round.reward ? 1 : 0;
      if (!is_used(round)) {
        return;
      }
      if (with_model_) {
        const std::span<const float> features = features_.of(round);
        if (model_ == nullptr) {
          model_ = std::make_unique<CrossFittedModel>(features_.dimension(), options_.lambda);
        }
        const std::size_t dimension = features_.dimension();
        model_->add(result_.log.rounds, features.subspan(round.chosen * dimension, dimension),
                    *round.reward);
      }
      result_.log.add(round);
    });
    if (result_.log.rounds < 2) {
      throw Error(ErrorKind::kInput,
                  fmt::format("expected a log with at least 2 rounds that have rewards, found {} "
                              "({} are excluded, {} have no reward)",
                              result_.log.rounds, result_.excluded, result_.unrewarded));
    }
  }

  void refuse_certain_log() const {
    if (result_.log.is_deterministic() &&
        (has_learners_ || std::ranges::any_of(options_.estimators, uses_weights))) {
      throw Error(
          ErrorKind::kInput,
          "every decision of this log was made with probability 1, so the log cannot say what "
          "other actions would have earned, and only the direct method (--estimators dm) is left, "
          "which believes a model; log with exploration, such as epsilon above 0 in mcnb serve, "
          "and with the probability of each decision");
    }
  }

  // The second time: what the policies do.
  void play() {
    std::uint64_t number = 0;
    read_(needs_features_, [&](const LoggedRound& round) {
      if (is_used(round) && number < result_.log.rounds) {
        const std::span<const float> features =
            needs_features_ ? features_.of(round) : std::span<const float>{};
        play_round({number++, round, features});
      }
    });
    if (number < result_.log.rounds) {
      throw Error(ErrorKind::kInput,
                  fmt::format("the log became shorter while it was read: {} rounds, then {}",
                              result_.log.rounds, number));
    }
  }

  void play_round(const RoundView& view) {
    const LoggedRound& round = view.round;
    const std::size_t count = round.actions.size();
    modelled_.assign(count, 0.0);
    if (with_model_) {
      model_->predict(view.number, view.features, modelled_);
    }
    slots_.push_back(round.slot);
    rows_.front().rows.push_back({.weight = 1.0,
                                  .reward = *round.reward,
                                  .sample_weight = 1.0 / (1.0 - round.drop_probability)});
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      probabilities_.assign(count, 0.0);
      targets_[k]->probabilities(view, probabilities_);
      EvaluatedRow row = rows_.front().rows.back();
      row.weight = probabilities_[round.chosen] / round.probability;
      row.model_logged = modelled_[round.chosen];
      for (std::size_t i = 0; i < count; ++i) {
        row.model_policy += probabilities_[i] * modelled_[i];
      }
      rows_[k + 1].rows.push_back(row);
      note_weights(round, rows_[k + 1]);
    }
    for (Learner& learner : learners_) {
      learner.policy.play(view);
    }
  }

  // The largest weight that the round could have had, and what the log could not have taken.
  void note_weights(const LoggedRound& round, PolicyRows& rows) const {
    for (std::size_t i = 0; i < probabilities_.size(); ++i) {
      if (round.probabilities.empty()) {
        rows.largest_weight =
            std::max(rows.largest_weight, probabilities_[i] / result_.log.least_probability);
      } else if (round.probabilities[i] > 0.0) {
        rows.largest_weight =
            std::max(rows.largest_weight, probabilities_[i] / round.probabilities[i]);
      } else if (i != round.chosen) {
        rows.impossible += probabilities_[i];
      }
    }
    rows.largest_weight = std::max(rows.largest_weight, rows.rows.back().weight);
  }

  void estimate() {
    const bool in_range = result_.log.lowest_reward >= options_.lowest_reward &&
                          result_.log.highest_reward <= options_.highest_reward;
    const bool bounded = in_range && !result_.log.drops_differ;
    const std::set<std::uint32_t> slots(slots_.begin(), slots_.end());
    result_.slots.push_back(estimate_slot(options_, rows_, shown_, bounded));
    if (slots.size() > 1) {
      for (const std::uint32_t slot : slots) {
        result_.slots.push_back(estimate_slot(options_, rows_of_slot(slot), shown_, bounded));
        result_.slots.back().slot = slot;
      }
    }
    for (const Learner& learner : learners_) {
      result_.learning.push_back({learner.name, learner.policy.method(), learner.policy.rounds(),
                                  learner.policy.kept(), learner.policy.value()});
    }
  }

  std::vector<PolicyRows> rows_of_slot(std::uint32_t slot) const {
    std::vector<PolicyRows> own;
    for (const PolicyRows& all : rows_) {
      PolicyRows& part = own.emplace_back();
      part.name = all.name;
      part.largest_weight = all.largest_weight;
      for (std::size_t i = 0; i < all.rows.size(); ++i) {
        if (slots_[i] == slot) {
          part.rows.push_back(all.rows[i]);
        }
      }
    }
    return own;
  }

  void warn() {
    const LogHealth& log = result_.log;
    const auto add = [&](const std::string& text) { result_.warnings.push_back(text); };
    if (log.unsummed > 0) {
      add(
          fmt::format("the probabilities of {} of {} rounds do not add up to 1, or differ from "
                      "that of the chosen action",
                      log.unsummed, log.rounds));
    }
    if (log.taken.size() < log.actions.size()) {
      add(fmt::format("{} of {} actions were never taken", log.actions.size() - log.taken.size(),
                      log.actions.size()));
    }
    if (log.positive < kFewPositive) {
      add(
          fmt::format("only {} rewards are above 0: intervals hold less often than they say below "
                      "{}",
                      log.positive, kFewPositive));
    }
    if (log.lowest_reward < options_.lowest_reward ||
        log.highest_reward > options_.highest_reward) {
      add(fmt::format(
          "rewards from {:g} to {:g} leave the range {:g} to {:g}, so there are no "
          "Bernstein and anytime intervals: see --reward-range",
          log.lowest_reward, log.highest_reward, options_.lowest_reward, options_.highest_reward));
    }
    for (const PolicyEvaluation& policy : result_.slots.front().policies) {
      warn_of(policy);
    }
  }

  void warn_of(const PolicyEvaluation& policy) {
    const WeightHealth& health = policy.weights;
    if (health.effective_size < kSmallEffectiveSize) {
      result_.warnings.push_back(
          fmt::format("{}: an effective sample size of {:.0f}: intervals hold less often than they "
                      "say below {}",
                      policy.name, health.effective_size, kSmallEffectiveSize));
    }
    if (health.impossible > 0.0) {
      result_.warnings.push_back(
          fmt::format("{}: {:.2f} % of its decisions were impossible in the log, and count as if "
                      "they earned nothing in IPS",
                      policy.name, 100.0 * health.impossible));
    } else if (!health.mean_interval.contains(1.0)) {
      result_.warnings.push_back(fmt::format(
          "{}: the mean weight is {:.4f} ({:.4f} to {:.4f}) instead of 1: the probabilities of the "
          "log are not right",
          policy.name, health.mean, health.mean_interval.low, health.mean_interval.high));
    }
  }

  static constexpr std::uint64_t kFewPositive = 30;
  static constexpr int kSmallEffectiveSize = 200;

  const ReadRounds& read_;
  const EvaluationOptions& options_;
  ThreadPool& threads_;
  RoundFeatures features_;
  std::unique_ptr<CrossFittedModel> model_;
  std::vector<std::unique_ptr<TargetPolicy>> targets_;  // the baseline last, unless it is the log
  std::vector<PolicyRows> rows_;                        // of the log, then by target
  std::size_t shown_ = 0;                               // targets without the baseline
  std::vector<std::uint32_t> slots_;                    // of the rows
  std::vector<Learner> learners_;
  bool has_learners_ = false;
  bool with_model_ = false;
  bool needs_features_ = false;
  std::vector<double> modelled_;
  std::vector<double> probabilities_;
  Evaluation result_;
};

}  // namespace

Evaluation evaluate_log(const ReadRounds& read, const EvaluationOptions& options,
                        ThreadPool& threads) {
  if (options.policies.empty() || options.estimators.empty()) {
    throw Error(ErrorKind::kUsage, "expected at least one policy and one estimator");
  }
  if (!(options.lowest_reward < options.highest_reward)) {
    throw Error(ErrorKind::kUsage, "expected a range of rewards whose end is above its begin");
  }
  return LogEvaluation(read, options, threads).run();
}

}  // namespace mcnb
