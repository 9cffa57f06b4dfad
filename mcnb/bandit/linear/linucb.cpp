#include <functional>

#include "mcnb/bandit/linear/linear_choice.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/bandit/user_count.h"

namespace mcnb {
namespace {

struct LinUcbOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  UserModels users = UserModels::kOne;
};

OptionTable<LinUcbOptions> option_table() {
  OptionTable<LinUcbOptions> table;
  table.number("lambda", &LinUcbOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &LinUcbOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .choice("users", &LinUcbOptions::users,
              {{"one", UserModels::kOne}, {"each", UserModels::kEach}},
              "one state for all users, or one for each");
  return table;
}

LinUcbOptions parse(const OptionValues& values) {
  LinUcbOptions options;
  option_table().set_all(options, values);
  return options;
}

// LinUCB: a ridge regression for all users together, or one for each user, made when the user first
// gets data. Scores an arm by x.w + alpha sqrt(x^T M^-1 x * log(1 + t)). linear_state.h says what t
// is, linear_users.h what is asked of feature blocks.
class LinUcb final : public Policy {
 public:
  LinUcb(const LinUcbOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        threads_(*setup.threads) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override { users_.add_users(count); }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    users_.add(owner(user), sample.features, sample.reward);
  }

  ArmIndex choose(const Round& round) override {
    if (!has_long_features(round)) {
      return highest(scores(round));
    }
    users_.check_round(round);
    return choose_by_bounds(round, users_, exploration_scale(options_.alpha, rewards_), threads_,
                            std::bind_front(&LinUcb::find_ridge, this));
  }

  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    const double scale = exploration_scale(options_.alpha, rewards_);
    const bool one = options_.users == UserModels::kOne;
    const auto make_score = [&](const Arm&, const RidgePrediction& said) {
      Score score{.estimate = said.estimate, .cluster_size = one ? users_.count() : 1};
      double& bonus = one ? score.meta_bonus : score.user_bonus;  // one for all is a shared model
      bonus = scale * said.uncertainty;
      score.value = score.estimate + bonus;
      return score;
    };
    std::vector<Score> scores;
    score_arms(round, users_, threads_, std::bind_front(&LinUcb::find_ridge, this), make_score,
               scores);
    return scores;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    users_.add(owner(arm.user), arm.features, reward);
    ++rewards_;
  }

  std::size_t memory_bytes() const override {
    return sizeof *this - sizeof users_ + users_.memory_bytes();
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    writer.write(rewards_);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
  }

 private:
  // Whose state a user's samples go to.
  UserId owner(UserId user) const { return model_owner(options_.users, user); }

  const RidgeState* find_ridge(const Arm& arm, std::uint32_t block) const {
    const LinearState* state = users_.find(owner(arm.user));
    return state == nullptr ? nullptr : state->find(block);
  }

  LinUcbOptions options_;
  LinearUsers users_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<LinUcb>(parse(options), setup);
}

}  // namespace

PolicyKind linucb_policy() {
  return {.name = "linucb",
          .help = "ridge regression with upper confidence bounds, for all users or for each",
          .paper =
              "Li, Chu, Langford, Schapire: A Contextual-Bandit Approach to Personalized News "
              "Article Recommendation, WWW 2010",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
