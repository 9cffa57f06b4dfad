#include "mcnb/bandit/linear_clusters.h"
#include "mcnb/bandit/linear_users.h"
#include "mcnb/bandit/policy_kinds.h"

namespace mcnb {
namespace {

enum class GraphKind { kComplete, kRandom };

struct ClubOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  double alpha_2 = 1.0;
  GraphKind graph = GraphKind::kComplete;
};

OptionTable<ClubOptions> option_table() {
  OptionTable<ClubOptions> table;
  table.number("lambda", &ClubOptions::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &ClubOptions::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("alpha_2", &ClubOptions::alpha_2, {0.0, 1e6},
              "how far the weights of users who agree may differ, in confidence widths")
      .choice("graph", &ClubOptions::graph,
              {{"complete", GraphKind::kComplete}, {"random", GraphKind::kRandom}},
              "who is linked at the start: all, or each pair with chance 3 ln n / n");
  return table;
}

ClubOptions parse(const OptionValues& values) {
  ClubOptions options;
  option_table().set_all(options, values);
  return options;
}

// CLUB: users in a graph, who share what they know with all they are connected to. An arm is scored
// with the state of its user's component, x.w + alpha sqrt(x^T M^-1 x * log(1 + t)). After feedback
// for a user u an edge (u, j) goes when ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j)), w and T each
// user's own; edges never come back. Start data only updates the states: edges go with feedback.
//
// Users without samples have w = 0 and F(0) = 1, so that with alpha_2 = 1 and weights of at most
// unit length nobody loses an edge to them: in the complete graph they connect all, until each has
// been served. The same holds of users who come later.
//
// A round costs the squares of its arms' features; feedback compares the user with those it still
// has edges to, and searches components only when an edge goes (graph_search.h).
class Club final : public Policy {
 public:
  Club(const ClubOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        clusters_(users_, options.graph == GraphKind::kComplete
                              ? complete_user_graph(users_.known())
                              : random_user_graph(users_.known(), setup.seed)),
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

  ArmIndex choose(const Round& round) override { return highest(scores(round)); }

  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    const double scale = exploration_scale(options_.alpha, rewards_);
    // Most rounds are for one user, who is looked up once.
    const UserId usual = round.arms.front().user;
    const auto& usual_state = clusters_.state(usual);
    const std::size_t usual_size = clusters_.graph().size(usual);
    return score_arms(round, threads_, [&](const Arm& arm) {
      const bool same = arm.user == usual;
      const RidgePrediction said =
          users_.predict(same ? usual_state : clusters_.state(arm.user), arm.features);
      const double bonus = scale * said.uncertainty;
      return Score{.value = said.estimate + bonus,
                   .estimate = said.estimate,
                   .meta_bonus = bonus,
                   .cluster_size = same ? usual_size : clusters_.graph().size(arm.user)};
    });
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
    const std::uint32_t block = users_.add(user, features, reward);
    clusters_.add(user, block, features, reward);
  }

  ClubOptions options_;
  LinearUsers users_;
  LinearClusters clusters_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<Club>(parse(options), setup);
}

}  // namespace

PolicyKind club_policy() {
  return {.name = "club",
          .help =
              "ridge regression for clusters of users: connected components of a graph that "
              "loses edges between users who differ",
          .paper = "Gentile, Li, Zappella: Online Clustering of Bandits, ICML 2014",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
