#include "mcnb/bandit/linear/club_rule.h"
#include "mcnb/bandit/linear/linear_clusters.h"
#include "mcnb/bandit/linear/linear_size.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/policy_kind.h"

namespace mcnb {
namespace {

// Returns a function that finds the ridge state of an arm's component on a block. Most rounds have
// one user and one block: their state is looked up once.
auto component_ridges(const LinearUsers& users, const LinearClusters& clusters,
                      const Round& round) {
  const UserId first = round.arms.front().user;
  const std::optional<std::uint32_t> first_block = users.blocks().find(round.arms.front().features);
  const RidgeState* const ridge = first_block ? clusters.find(first, *first_block) : nullptr;
  return [=, &clusters](const Arm& arm, std::uint32_t block) {
    return arm.user == first && block == first_block ? ridge : clusters.find(arm.user, block);
  };
}

// CLUB: users in a graph share what they know with everybody they are connected to.
//
// A user without samples has w = 0 and F(0) = 1. With alpha_2 = 1 and weights of at most unit
// length, nobody loses an edge to such a user, so in the complete graph these users connect
// everybody until each has been served. Later users: user_graph.h.
//
// A round costs the squares of its arms' features. Feedback compares the user with those it still
// has edges to, and searches components only if an edge is cut (graph_search.h).
class Club final : public Policy {
 public:
  Club(const ClubOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        clusters_(users_, make_user_graph(options.graph, users_.known(), setup.seed)),
        threads_(*setup.threads) {}

  // The decision. An arm is scored with the ridge regression (M, w) of its user's component V, over
  // the samples of all members: M = lambda I + sum x x^T, w = M^-1 sum r x.
  ArmIndex choose(const Round& round) override {
    users_.check_round(round);
    const auto ridge_of = component_ridges(users_, clusters_, round);  // (M, w) of V
    return choose_arm(round, upper_bounds(), ridge_of);                // argmax of upper_bounds
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    return score_arms(round, upper_bounds(), component_ridges(users_, clusters_, round),
                      [this](const Arm& arm) { return clusters_.graph().size(arm.user); });
  }

  // The update with the reward r of the arm x of user u. Each user has a regression of its own,
  // with weights w and T samples; F(T) = sqrt((1 + ln(1 + T)) / (1 + T)) says how far w may be off.
  // Edges never come back.
  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    // M += x x^T and b += r x, for u and for its component
    add_sample(arm.user, arm.features, reward);
    // t += 1
    ++rewards_;
    // cut every edge (u, j) with ||w_u - w_j|| > alpha_2 (F(T_u) + F(T_j))
    clusters_.cut_distant(arm.user, options_.alpha_2);
  }

  // Cuts no edges.
  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    add_sample(user, sample.features, sample.reward);
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    return clusters_.graph().members(arm.user);
  }

  std::size_t user_count() const override { return users_.count(); }
  void add_users(std::size_t count) override {
    users_.add_users(count);
    clusters_.add_users(count);
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
  void add_sample(UserId user, const Features& features, double reward) {
    clusters_.add(users_.add(user, features, reward), features, reward);
  }

  // The value of an arm: x.w + alpha sqrt(x^T M^-1 x * log(1 + t)).
  UpperBounds upper_bounds() const {
    return {users_, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  ClubOptions options_;
  LinearUsers users_;        // the own samples, M and w of every user
  LinearClusters clusters_;  // the graph, and the samples, M and w of every component
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;  // t
};

}  // namespace

PolicyKind club_policy() {
  return policy_kind<Club>(
      {.name = "club",
       .help = "ridge regression for clusters of users: connected components of a graph that "
               "loses edges between users who differ; newcomers join those who have not been "
               "served, or the largest cluster",
       .paper = "Gentile, Li, Zappella: Online Clustering of Bandits, ICML 2014",
       .values_before = {{"alpha_2", "1"}}},
      club_option_table(), [](const ClubOptions&, const PolicySetup& setup) {
        return linear_policy_size(setup, {.states = 2.0, .shared_states = 0.0});
      });
}

}  // namespace mcnb
