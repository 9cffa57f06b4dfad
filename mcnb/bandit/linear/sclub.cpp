#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "mcnb/bandit/linear/linear_size.h"
#include "mcnb/bandit/linear/sclub_clusters.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/policy_kind.h"

namespace mcnb {
namespace {

struct SclubOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  double alpha_w = 0.3;                 // alpha_theta in the paper
  double alpha_p = 1.4142135623730951;  // sqrt(2)
};

OptionTable<SclubOptions> option_table() {
  using Options = SclubOptions;
  OptionTable<Options> table;
  table.number("lambda", &Options::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .number("alpha_w", &Options::alpha_w, {0.0, 1e6},
              "how far apart the weights of users that agree may be")
      .number("alpha_p", &Options::alpha_p, {0.0, 1e6},
              "how far apart the shares of rounds of users that agree may be");
  return table;
}

// Phase s = 1, 2, ... has the 2^s rounds 2^s - 1 to 2^(s+1) - 2, rounds counted from 1.
std::uint32_t phase_of(std::uint64_t round) {
  return static_cast<std::uint32_t>(std::bit_width(round + 1)) - 1;
}

// SCLUB: users in disjoint clusters that split and merge; at the start one cluster holds everybody.
// An arm is scored, as in LinUCB, by the ridge state of all samples of its user's cluster.
//
// A round is a reward learned. p is a user's share of all rounds so far, for a cluster the mean of
// its members' shares. Start data counts in T and w, but is no round.
// Split: the user u of the round is checked. It leaves its cluster c for one of its own if
//   ||w_u - w_c|| > alpha_w (F(T_u) + F(T_c)), w_c and T_c as they were at the phase's start, or
//   |p_u - p_v| > 2 alpha_p F(t) for a member v.
// Merge: of the clusters whose members have all been checked in this phase, two are merged if
//   ||w_1 - w_2|| < alpha_w/2 (F(T_1) + F(T_2)) and |p_1 - p_2| < alpha_p F(t).
//
// What the paper leaves open, and where we depart from it:
// - A merged cluster has, until the next phase, w_c and T_c as they were at its birth. A cluster
//   that a user left keeps those of the phase's start. A cluster of one does not split.
// - Clusters are numbered as they are born. Of all pairs that can be merged, the one with the
// lowest
//   numbers is merged first, until there are none left.
// - Users that come later begin in clusters of their own. In a common cluster, these users without
//   rounds would drive out everybody who has had many.
//
// A round costs, beside its arms, the comparison of the served user's cluster with all clusters
// that are fully checked, d multiplications each; it does not depend on the number of users. Pairs
// of other clusters can only have come closer by their shares, as t grows: those whose weights
// agree are kept, and looked at in every round. Of the shares in a cluster only the lowest and the
// highest matter. A phase begins for a cluster when it is next touched. The smaller of two clusters
// moves.
class Sclub final : public Policy {
 public:
  Sclub(const SclubOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        threads_(*setup.threads),
        clusters_(users_) {
    clusters_.add_together();
  }

  std::size_t user_count() const override { return users_.count(); }

  void add_users(std::size_t count) override {
    users_.add_users(count);
    clusters_.add_one_by_one();
  }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    add_sample(user, sample);
  }

  ArmIndex choose(const Round& round) override {
    users_.check_round(round);
    return choose_arm(round, upper_bounds(), std::bind_front(&Sclub::find_ridge, this));
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    return score_arms(round, upper_bounds(), std::bind_front(&Sclub::find_ridge, this),
                      [this](const Arm& arm) { return clusters_.of(arm.user).members.size(); });
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    std::vector<UserId> members = clusters_.of(arm.user).members;
    std::ranges::sort(members);
    return members;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    ++rewards_;
    if (phase_of(rewards_) != phase_of(rewards_ - 1)) {
      checked_.clear();
      agreeing_.clear();
    }
    add_sample(arm.user, {arm.features, reward});
    clusters_.count_round(arm.user);
    if (should_leave(arm.user)) {
      changed_.insert(clusters_.split_off(arm.user));
    }
    merge_while_possible();
  }

  std::size_t memory_bytes() const override {
    constexpr std::size_t kTreeNode = 4 * sizeof(void*);
    return sizeof *this - sizeof users_ - sizeof clusters_ + users_.memory_bytes() +
           clusters_.memory_bytes() +
           (checked_.size() + changed_.size()) * (kTreeNode + sizeof(std::uint64_t)) +
           agreeing_.size() * (kTreeNode + sizeof(Pair));
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    writer.write(rewards_);
    clusters_.save(writer);
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
    clusters_.load(reader, rewards_, phase_of(rewards_));
    checked_.clear();
    changed_.clear();
    agreeing_.clear();
    for (const auto& [number, cluster] : clusters_.all()) {
      changed_.insert(number);  // the next round finds out again what it agrees with
      if (rewards_ > 0 && is_checked(cluster)) {
        checked_.insert(number);
      }
    }
  }

 private:
  using Cluster = SclubClusters::Cluster;
  using Pair = std::pair<std::uint64_t, std::uint64_t>;  // of clusters, the lower number first

  UpperBounds upper_bounds() const {
    return {users_, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  const RidgeState* find_ridge(const Arm& arm, std::uint32_t block) const {
    return clusters_.of(arm.user).state.find(block);
  }

  void add_sample(UserId user, const Sample& sample) {
    const std::uint64_t number = clusters_.number_of(user);
    Cluster& cluster = clusters_.at(number);
    SclubClusters::enter_phase(cluster, phase_of(rewards_));
    const auto [row, block] = users_.add(user, sample.features, sample.reward);
    cluster.state.add(row, block, sample.features.values, sample.reward);
    changed_.insert(number);
  }

  // The rule of splitting, for the user of the round.
  bool should_leave(UserId user) const {
    const Cluster& cluster = clusters_.of(user);
    if (cluster.members.size() == 1) {
      return false;
    }
    const LinearState& own = *users_.find(user);
    const double distance = std::sqrt(cluster.old.squared_distance(own, users_.blocks()));
    const double allowed = options_.alpha_w * (confidence_width(own.sample_count()) +
                                               confidence_width(cluster.old.samples));
    const double share = share_of(clusters_.rounds_of(user));
    const double lowest = share_of(cluster.with_rounds.begin()->first);
    const double highest = share_of(cluster.with_rounds.rbegin()->first);
    return distance > allowed || std::max(share - lowest, highest - share) >
                                     2.0 * options_.alpha_p * confidence_width(rewards_);
  }

  double share_of(std::uint64_t rounds) const {
    return static_cast<double>(rounds) / static_cast<double>(rewards_);
  }

  bool is_checked(const Cluster& cluster) const {
    return cluster.phase == phase_of(rewards_) && cluster.all_checked();
  }

  void merge_while_possible() {
    for (const std::uint64_t number : std::exchange(changed_, {})) {
      find_agreeing(number);
    }
    const auto can_merge = [&](const Pair& pair) {
      return shares_agree(clusters_.at(pair.first), clusters_.at(pair.second));
    };
    for (auto pair = std::ranges::find_if(agreeing_, can_merge); pair != agreeing_.end();
         pair = std::ranges::find_if(agreeing_, can_merge)) {
      const auto [a, b] = *pair;
      const std::uint64_t merged = clusters_.merge(a, b);
      const std::uint64_t gone = merged == a ? b : a;
      checked_.erase(gone);
      forget_pairs(gone);
      find_agreeing(merged);
    }
  }

  // Finds anew with which clusters one that has changed agrees.
  void find_agreeing(std::uint64_t number) {
    forget_pairs(number);
    const Cluster& cluster = clusters_.at(number);
    if (!is_checked(cluster)) {
      return;
    }
    checked_.insert(number);
    const WeightsThen weights = WeightsThen::of(cluster.state);
    for (const std::uint64_t other : checked_) {
      if (other != number && weights_agree(weights, clusters_.at(other).state)) {
        agreeing_.insert(std::minmax(number, other));
      }
    }
  }

  void forget_pairs(std::uint64_t number) {
    std::erase_if(agreeing_,
                  [&](const Pair& pair) { return pair.first == number || pair.second == number; });
  }

  // The rule of merging, in two parts.
  bool weights_agree(const WeightsThen& weights, const LinearGroup& other) const {
    return std::sqrt(weights.squared_distance(other, users_.blocks())) <
           options_.alpha_w / 2.0 *
               (confidence_width(weights.samples) + confidence_width(other.sample_count()));
  }

  bool shares_agree(const Cluster& a, const Cluster& b) const {
    const auto mean_share = [&](const Cluster& cluster) {
      return share_of(cluster.rounds) / static_cast<double>(cluster.members.size());
    };
    return std::abs(mean_share(a) - mean_share(b)) < options_.alpha_p * confidence_width(rewards_);
  }

  SclubOptions options_;
  LinearUsers users_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
  SclubClusters clusters_;
  std::set<std::uint64_t> checked_;  // clusters of which every member was checked in this phase
  std::set<Pair> agreeing_;          // pairs of these whose weights are close enough to merge
  std::set<std::uint64_t> changed_;  // clusters whose pairs have to be found anew
};

}  // namespace

PolicyKind sclub_policy() {
  return policy_kind<Sclub>(
      {.name = "sclub",
       .help = "linear clustering bandit: sets of users that split and merge",
       .paper =
           "Li, Chen, Li, Leung: Improved Algorithm on Online Clustering of Bandits, IJCAI 2019",
       .values_before = {{"alpha_w", "1"}}},
      option_table(), [](const SclubOptions&, const PolicySetup& setup) {
        return linear_policy_size(setup, {.states = 2.0, .shared_states = 0.0});
      });
}

}  // namespace mcnb
