#include "mcnb/bandit/linear/club_rule.h"
#include "mcnb/bandit/linear/linear_choice.h"
#include "mcnb/bandit/linear/linear_clusters.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/policy_kinds.h"

namespace mcnb {
namespace {

ClubOptions parse(const OptionValues& values) {
  ClubOptions options;
  club_option_table().set_all(options, values);
  return options;
}

// CLUB: users in a graph, who share what they know with all they are connected to. An arm is scored
// with the state of its user's component, x.w + alpha sqrt(x^T M^-1 x * log(1 + t)). After feedback
// for a user u an edge (u, j) goes when ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j)), w and T each
// user's own; edges never come back. Start data only updates the states: edges go with feedback.
//
// Users without samples have w = 0 and F(0) = 1, so that with alpha_2 = 1 and weights of at most
// unit length nobody loses an edge to them: in the complete graph they connect all, until each has
// been served. Users who come later are like those; where all have been served, they begin in the
// largest component (user_graph.h).
//
// A round costs the squares of its arms' features; feedback compares the user with those it still
// has edges to, and searches components only when an edge goes (graph_search.h).
class Club final : public Policy {
 public:
  Club(const ClubOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        clusters_(users_, make_user_graph(options.graph, users_.known(), setup.seed)),
        threads_(*setup.threads) {}

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override {
    users_.add_users(count);
    clusters_.add_users(count);
  }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    add(user, sample.features, sample.reward);
  }

  ArmIndex choose(const Round& round) override {
    if (!has_long_features(round)) {
      find_scores(round);
      return highest(scores_);
    }
    users_.check_round(round);
    return choose_by_bounds(
        round, users_, exploration_scale(options_.alpha, rewards_), threads_,
        [this](const Arm& arm, std::uint32_t block) { return clusters_.find(arm.user, block); });
  }

  std::vector<Score> scores(const Round& round) override {
    find_scores(round);
    return scores_;
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    return clusters_.graph().members(arm.user);
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    add(arm.user, arm.features, reward);
    ++rewards_;
    clusters_.cut_distant(arm.user, options_.alpha_2);
  }

  std::size_t memory_bytes() const override {
    return sizeof *this - sizeof users_ - sizeof clusters_ + users_.memory_bytes() +
           clusters_.memory_bytes();
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    clusters_.save(writer);
    writer.write(rewards_);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    clusters_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
  }

 private:
  void add(UserId user, const Features& features, double reward) {
    clusters_.add(users_.add(user, features, reward), features, reward);
  }

  void find_scores(const Round& round) {
    users_.check_round(round);
    const double scale = exploration_scale(options_.alpha, rewards_);
    // Most rounds are for one user and one block, which are looked up once.
    const Arm& first = round.arms.front();
    const std::optional<std::uint32_t> first_block = users_.blocks().find(first.features);
    const RidgeState* const usual =
        first_block ? clusters_.find(first.user, *first_block) : nullptr;
    const std::size_t usual_size = clusters_.graph().size(first.user);
    const auto find_ridge = [&](const Arm& arm, std::uint32_t block) {
      const bool same = arm.user == first.user && first_block == block;
      return same ? usual : clusters_.find(arm.user, block);
    };
    const auto make_score = [&](const Arm& arm, const RidgePrediction& said) {
      const double bonus = scale * said.uncertainty;
      return Score{
          .value = said.estimate + bonus,
          .estimate = said.estimate,
          .meta_bonus = bonus,
          .cluster_size = arm.user == first.user ? usual_size : clusters_.graph().size(arm.user)};
    };
    score_arms(round, users_, threads_, find_ridge, make_score, scores_);
  }

  ClubOptions options_;
  LinearUsers users_;
  LinearClusters clusters_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
  std::vector<Score> scores_;  // of the last round: memory to be reused
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<Club>(parse(options), setup);
}

}  // namespace

PolicyKind club_policy() {
  return {.name = "club",
          .help =
              "ridge regression for clusters of users: connected components of a graph that "
              "loses edges between users who differ; newcomers join those who have not been "
              "served, or the largest cluster",
          .paper = "Gentile, Li, Zappella: Online Clustering of Bandits, ICML 2014",
          .options = [] { return club_option_table().help(); },
          .resolve = [](const OptionValues& o) { return club_option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
