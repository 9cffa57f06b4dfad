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
#include "mcnb/evaluate/log_warnings.h"
#include "mcnb/evaluate/slot_estimates.h"

namespace mcnb {
namespace {

constexpr std::string_view kReplay = "replay=";
constexpr std::string_view kProgressive = "progressive=";
constexpr std::string_view kAction = "action=";

struct Learner {
  std::string name;
  LearningPolicy policy;
};

bool is_used(const LoggedRound& round) { return !round.excluded && round.reward.has_value(); }

// Numbers events. Rounds of one event follow one another in the order of its slots.
class EventCount {
 public:
  // True if the round belongs to the event of the round before.
  bool joins(const LoggedRound& round) {
    const bool joins = count_ > 0 && round.slots > 1 && round.slot > slot_ && round.event == event_;
    count_ += joins ? 0 : 1;
    slot_ = round.slots > 1 ? round.slot : kNoSlot;
    if (round.slots > 1) {
      event_ = round.event;
    }
    return joins;
  }
  std::uint64_t number() const { return count_ - 1; }

 private:
  static constexpr std::uint32_t kNoSlot = 0xffffffff;  // no slot comes after it
  std::uint64_t count_ = 0;
  std::uint32_t slot_ = kNoSlot;
  std::string event_;
};

class LogEvaluation {
 public:
  LogEvaluation(const ReadRounds& read, const EvaluationOptions& options, ThreadPool& threads)
      : read_(read), options_(options), threads_(threads), features_(options.dimension) {
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
    needs_features_ = with_model_ || has_learners_ ||
                      std::ranges::any_of(targets_, [](const TargetPolicy* target) {
                        return target->needs_features();
                      });
  }

  Evaluation run() {
    check_policies();  // before anything is read
    look();
    check_actions();
    if (result_.log.is_deterministic()) {
      if (has_learners_) {
        refuse_certain_log(kEveryEstimator);
      }
      refuse_certain_log(options_.estimators);
    }
    add_learners();
    begin_sums();
    play();
    estimate();
    add_warnings(options_, result_);
    return std::move(result_);
  }

 private:
  void add_target(const std::string& name) {
    const auto own = options_.own.find(name);
    if (own == options_.own.end()) {
      made_.push_back(make_target_policy(name, threads_));
    }
    targets_.push_back(own == options_.own.end() ? made_.back().get() : own->second);
    names_.push_back(name);
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

  // A mistyped action would be evaluated as random play.
  void check_actions() const {
    const std::set<std::string>& actions = result_.log.actions;
    for (const std::string& name : names_) {
      const std::string action = name.starts_with(kAction) ? name.substr(kAction.size()) : "";
      if (action.empty() || options_.own.contains(name) || actions.contains(action) ||
          actions.size() >= LogHealth::kMostNamed) {
        continue;
      }
      constexpr std::size_t kMostShown = 10;
      std::string known;
      std::size_t shown = 0;
      for (auto one = actions.begin(); one != actions.end() && shown < kMostShown; ++one, ++shown) {
        known += (known.empty() ? "" : ", ") + *one;
      }
      throw Error(ErrorKind::kUsage,
                  fmt::format("policy \"{}\": expected an action of the log: {}{}", name, known,
                              actions.size() > kMostShown ? ", ..." : ""));
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
          {name,
           LearningPolicy(
               replays ? LearningPolicy::Method::kReplay : LearningPolicy::Method::kProgressive,
               parse_policy(name.substr(prefix)), result_.log.least_probability, options_.seed,
               threads_, {options_.lowest_reward, options_.highest_reward})});
    }
  }

  // The first time through the log: its health, and the model of the rewards.
  void look() {
    EventCount events;
    read_(needs_features_, [&](const LoggedRound& round) {
      result_.excluded += round.excluded ? 1 : 0;
      result_.unrewarded += !round.excluded && !round.reward ? 1 : 0;
      if (!is_used(round)) {
        return;
      }
      events.joins(round);
      if (with_model_) {
        const std::span<const float> features = features_.of(round);
        if (model_ == nullptr) {
          model_ = make_model();
        }
        const std::size_t dimension = features_.dimension();
        model_->add(events.number(), features.subspan(round.chosen * dimension, dimension),
                    *round.reward);
      }
      result_.log.add(round);
      slots_.insert(round.slot);
    });
    if (model_ != nullptr) {
      model_->finish();
    }
    if (result_.log.rounds < 2) {
      throw Error(ErrorKind::kInput,
                  fmt::format("expected a log with at least 2 rounds that have rewards, found {} "
                              "({} are excluded, {} have no reward)",
                              result_.log.rounds, result_.excluded, result_.unrewarded));
    }
  }

  std::unique_ptr<CrossFittedModel> make_model() const {
    if (options_.model == RewardModel::kNetwork) {
      return std::make_unique<CrossFittedNetwork>(features_.dimension(), options_.seed);
    }
    return std::make_unique<CrossFittedRidge>(features_.dimension(), options_.lambda);
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

  // All rounds together, then every slot if there are several.
  void begin_sums() {
    sums_.push_back(new_sums());
    if (slots_.size() > 1) {
      for (const std::uint32_t slot : slots_) {
        sums_of_slot_[slot] = sums_.size();
        sums_.push_back(new_sums());
      }
    }
  }

  std::vector<PolicySums> new_sums() const {
    constexpr Estimator kLogged[] = {Estimator::kIps};
    std::vector<PolicySums> sums;
    sums.emplace_back("logged", kLogged, options_);
    for (const std::string& name : names_) {
      sums.emplace_back(name, options_.estimators, options_);
    }
    return sums;
  }

  void play_round(const RoundView& view) {
    const LoggedRound& round = view.round;
    const std::size_t count = round.actions.size();
    modelled_.assign(count, 0.0);
    const bool same_event = events_.joins(round);
    if (with_model_) {
      model_->predict(events_.number(), view.features, modelled_);
    }
    EvaluatedRow row{.weight = 1.0,
                     .reward = *round.reward,
                     .sample_weight = 1.0 / (1.0 - round.drop_probability)};
    std::vector<std::vector<PolicySums>*> of_round{&sums_.front()};
    if (!sums_of_slot_.empty()) {
      of_round.push_back(&sums_[sums_of_slot_.at(round.slot)]);
    }
    const auto add = [&](std::size_t k) {
      for (std::vector<PolicySums>* sums : of_round) {
        (*sums)[k].add(row, same_event && sums == of_round.front());
      }
    };
    add(0);
    row.model_logged = modelled_[round.chosen];
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      probabilities_.assign(count, 0.0);
      targets_[k]->probabilities(view, probabilities_);
      row.weight = probabilities_[round.chosen] / round.probability;
      row.model_policy = 0.0;
      for (std::size_t i = 0; i < count; ++i) {
        row.model_policy += probabilities_[i] * modelled_[i];
      }
      add(k + 1);
      for (std::vector<PolicySums>* sums : of_round) {
        note_weights(round, row.weight, (*sums)[k + 1]);
      }
    }
    for (Learner& learner : learners_) {
      learner.policy.play(view);
    }
  }

  // The largest weight that the round could have had, and what the log could not have taken.
  void note_weights(const LoggedRound& round, double weight, PolicySums& sums) const {
    for (std::size_t i = 0; i < probabilities_.size(); ++i) {
      if (round.probabilities.empty()) {
        sums.largest_weight =
            std::max(sums.largest_weight, probabilities_[i] / result_.log.least_probability);
      } else if (round.probabilities[i] > 0.0) {
        sums.largest_weight =
            std::max(sums.largest_weight, probabilities_[i] / round.probabilities[i]);
      } else if (i != round.chosen) {
        sums.impossible += probabilities_[i];
      }
    }
    sums.largest_weight = std::max(sums.largest_weight, weight);
  }

  void estimate() {
    const bool in_range = result_.log.lowest_reward >= options_.lowest_reward &&
                          result_.log.highest_reward <= options_.highest_reward;
    const bool bounded = in_range && !result_.log.drops_differ;
    for (std::vector<PolicySums>& of_slot : sums_) {
      for (PolicySums& sums : of_slot) {
        sums.finish();
      }
      result_.slots.push_back(estimate_slot(options_, of_slot, shown_, bounded));
    }
    for (const auto& [slot, number] : sums_of_slot_) {
      result_.slots[number].slot = slot;
    }
    for (const Learner& learner : learners_) {
      result_.learning.push_back({learner.name, learner.policy.method(), learner.policy.rounds(),
                                  learner.policy.kept(), learner.policy.value(),
                                  bounded ? learner.policy.anytime() : std::nullopt});
    }
  }

  const ReadRounds& read_;
  const EvaluationOptions& options_;
  ThreadPool& threads_;
  RoundFeatures features_;
  std::unique_ptr<CrossFittedModel> model_;
  std::vector<std::unique_ptr<TargetPolicy>> made_;
  std::vector<TargetPolicy*> targets_;  // the baseline last, unless it is the log
  std::vector<std::string> names_;      // of the targets
  std::size_t shown_ = 0;               // targets without the baseline
  std::set<std::uint32_t> slots_;
  std::vector<std::vector<PolicySums>> sums_;          // the log, then by target
  std::map<std::uint32_t, std::size_t> sums_of_slot_;  // position in sums_; empty: one slot
  std::vector<Learner> learners_;
  EventCount events_;  // of the second time
  bool has_learners_ = false;
  bool with_model_ = false;
  bool needs_features_ = false;
  std::vector<double> modelled_;
  std::vector<double> probabilities_;
  Evaluation result_;
};

}  // namespace

RewardModel parse_reward_model(const std::string& name) {
  if (name != "ridge" && name != "network") {
    throw Error(ErrorKind::kUsage, fmt::format("model \"{}\": expected ridge or network", name));
  }
  return name == "ridge" ? RewardModel::kRidge : RewardModel::kNetwork;
}

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
