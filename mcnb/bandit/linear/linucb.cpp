#include <functional>

#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/linear/user_models.h"
#include "mcnb/bandit/policy_kind.h"

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

// LinUCB: ridge regression with upper confidence bounds, for all users together or for each.
//
// Every state begins with M = lambda I and b = 0. After a reward r for an arm with features x, the
// state of the arm's user takes M += x x^T and b += r x. With w = M^-1 b, an arm's score is
//   x.w + alpha sqrt(x^T M^-1 x * log(1 + t)),
// where t counts rewards (exploration_scale). linear_users.h says how feature blocks are kept.
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
    users_.check_round(round);
    return choose_arm(round, upper_bounds(), std::bind_front(&LinUcb::find_ridge, this));
  }

  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    const std::size_t sharing = options_.users == UserModels::kOne ? users_.count() : 1;
    return score_arms(round, upper_bounds(), std::bind_front(&LinUcb::find_ridge, this),
                      [&](const Arm&) { return sharing; });
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
  UpperBounds upper_bounds() const {
    return {users_, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  // The user whose state a user's samples go to.
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

}  // namespace

PolicyKind linucb_policy() {
  return policy_kind<LinUcb>(
      {.name = "linucb",
       .help = "ridge regression with upper confidence bounds, for all users or for each",
       .paper = "Li, Chu, Langford, Schapire: A Contextual-Bandit Approach to Personalized News "
                "Article Recommendation, WWW 2010"},
      option_table());
}

}  // namespace mcnb
