#include "mcnb/evaluate/policies/target_policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/evaluate/policies/frequency_policy.h"
#include "mcnb/evaluate/policies/log_users.h"
#include "mcnb/evaluate/policies/policy_rounds.h"

namespace mcnb {
namespace {

// Gives every eligible action the same probability, `total` together, on top of what it has.
void add_uniform(const LoggedRound& round, double total, std::span<double> actions) {
  std::size_t eligible = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    eligible += round.is_eligible(i) ? 1 : 0;
  }
  for (std::size_t i = 0; i < actions.size(); ++i) {
    actions[i] += round.is_eligible(i) ? total / static_cast<double>(eligible) : 0.0;
  }
}

class RandomTarget : public TargetPolicy {
 public:
  void probabilities(const RoundView& view, std::span<double> actions) override {
    set_uniform(view.round, actions);
  }
};

class FirstTarget : public TargetPolicy {
 public:
  void probabilities(const RoundView& view, std::span<double> actions) override {
    std::ranges::fill(actions, 0.0);
    std::size_t first = 0;
    while (!view.round.is_eligible(first)) {
      ++first;
    }
    actions[first] = 1.0;
  }
};

class ActionTarget : public TargetPolicy {
 public:
  explicit ActionTarget(std::string id) : id_(std::move(id)) {
    std::size_t number = 0;
    const char* const end = id_.data() + id_.size();
    const auto [rest, problem] = std::from_chars(id_.data(), end, number);
    if (problem == std::errc() && rest == end) {
      number_ = number;
    }
  }

  void probabilities(const RoundView& view, std::span<double> actions) override {
    std::ranges::fill(actions, 0.0);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::string& id = view.round.actions[i].id;
      if ((id.empty() ? number_ == i : id == id_) && view.round.is_eligible(i)) {
        actions[i] = 1.0;
        return;
      }
    }
    set_uniform(view.round, actions);
  }

 private:
  std::string id_;
  std::optional<std::size_t> number_;
};

class SavedTarget : public TargetPolicy {
 public:
  SavedTarget(const std::string& path, const Exploration& exploration, ThreadPool& threads)
      : path_(path),
        exploration_(exploration),
        saved_(load_saved_policy(path, threads)),
        named_(!saved_.memory.users.empty()),
        users_(saved_.memory.users) {}

  bool needs_features() const override { return true; }

  void probabilities(const RoundView& view, std::span<double> actions) override {
    const std::size_t dimension = view.features.size() / actions.size();
    if (dimension != saved_.setup.inputs) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: the policy takes {} features, the log has {}: see --dimension",
                              path_, saved_.setup.inputs, dimension));
    }
    set_explored(view, *saved_.policy, user_of(view.round), exploration_, actions);
  }

 private:
  // Policies that learned from a log know their users by name, and take others as new ones. Users
  // of other saved policies have no names: the log must call them by their numbers.
  UserId user_of(const LoggedRound& round) {
    if (named_) {
      return users_.of(round.user, *saved_.policy);
    }
    if (round.user.empty()) {
      return UserId{0};
    }
    std::uint32_t number = 0;
    const char* const end = round.user.data() + round.user.size();
    const auto [rest, problem] = std::from_chars(round.user.data(), end, number);
    if (problem != std::errc() || rest != end || number >= saved_.policy->user_count()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("user \"{}\": {} has the users 0 to {}", round.user, path_,
                              saved_.policy->user_count() - 1));
    }
    return UserId{number};
  }

  std::string path_;
  Exploration exploration_;
  SavedPolicy saved_;
  bool named_;
  LogUsers users_;
};

// FILE, or FILE:EXPLORATION; a file name may have a colon.
std::unique_ptr<TargetPolicy> make_saved_target(std::string path, ThreadPool& threads) {
  Exploration exploration;
  const std::size_t colon = path.rfind(':');
  if (colon != std::string::npos && path.find('/', colon) == std::string::npos) {
    exploration = parse_exploration(path.substr(colon + 1));
    path.resize(colon);
  }
  return std::make_unique<SavedTarget>(path, exploration, threads);
}

}  // namespace

void set_uniform(const LoggedRound& round, std::span<double> actions) {
  std::ranges::fill(actions, 0.0);
  add_uniform(round, 1.0, actions);
}

EligibleRound eligible_round(const RoundView& view, UserId user) {
  EligibleRound eligible;
  eligible.round.id = RoundId{view.number};
  const std::size_t count = view.round.actions.size();
  const std::size_t dimension = view.features.size() / count;
  for (std::size_t i = 0; i < count; ++i) {
    if (view.round.is_eligible(i)) {
      eligible.round.arms.push_back(
          {.index = ArmIndex{static_cast<std::uint32_t>(eligible.actions.size())},
           .user = user,
           .features = {view.features.subspan(i * dimension, dimension)}});
      eligible.actions.push_back(i);
    }
  }
  return eligible;
}

void set_explored(const RoundView& view, Policy& policy, UserId user,
                  const Exploration& exploration, std::span<double> actions) {
  std::ranges::fill(actions, 0.0);
  const EligibleRound round = eligible_round(view, user);
  const std::vector<double> chosen = choice_probabilities(exploration, policy.scores(round.round));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    actions[round.actions[i]] = chosen[i];
  }
}

std::unique_ptr<TargetPolicy> make_target_policy(const std::string& name, ThreadPool& threads) {
  constexpr std::string_view kAction = "action=";
  constexpr std::string_view kState = "state=";
  constexpr std::string_view kFrequency = "frequency=";
  if (name == "random") {
    return std::make_unique<RandomTarget>();
  }
  if (name == "first") {
    return std::make_unique<FirstTarget>();
  }
  if (name.starts_with(kAction) && name.size() > kAction.size()) {
    return std::make_unique<ActionTarget>(name.substr(kAction.size()));
  }
  if (name.starts_with(kState) && name.size() > kState.size()) {
    return make_saved_target(name.substr(kState.size()), threads);
  }
  if (name.starts_with(kFrequency) && name.size() > kFrequency.size()) {
    return std::make_unique<FrequencyTarget>(name.substr(kFrequency.size()));
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("policy \"{}\": expected random, first, action=ID, state=FILE, "
                          "frequency=LOG, replay=POLICY or progressive=POLICY",
                          name));
}

}  // namespace mcnb
