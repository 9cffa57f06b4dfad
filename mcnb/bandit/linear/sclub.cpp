#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "mcnb/bandit/linear/group_state.h"
#include "mcnb/bandit/linear/linear_choice.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/policy_kinds.h"

namespace mcnb {
namespace {

struct SclubOptions {
  double lambda = 1.0;
  double alpha = 0.1;
  double alpha_w = 1.0;                 // alpha_theta in the paper
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

SclubOptions parse(const OptionValues& values) {
  SclubOptions options;
  option_table().set_all(options, values);
  return options;
}

// Phase s = 1, 2, ... has the 2^s rounds 2^s - 1 to 2^(s+1) - 2, rounds counted from 1.
std::uint32_t phase_of(std::uint64_t round) {
  return static_cast<std::uint32_t>(std::bit_width(round + 1)) - 1;
}

std::span<const double> weights_of(const RidgeState& ridge) {
  return {ridge.weights().data(), ridge.dimension()};
}

// The weights of a user or a group as they were at some time.
struct Weights {
  std::uint64_t samples = 0;          // that they came from
  std::vector<std::uint32_t> blocks;  // ascending
  std::vector<double> values;         // of these blocks, one after the other

  static Weights of(const GroupState& state) {
    Weights weights{.samples = state.sample_count()};
    for (std::size_t place = 0; place < state.block_count(); ++place) {
      const std::span<const double> values = weights_of(state.ridge(place));
      weights.blocks.push_back(state.block(place));
      weights.values.insert(weights.values.end(), values.begin(), values.end());
    }
    return weights;
  }

  // ||w - w'||^2 to what a user or a group (a LinearState or GroupState) has now; a block that one
  // of them lacks has w = 0.
  template <class State>
  double squared_distance(const State& state, const FeatureBlocks& all) const {
    double sum = 0.0;
    std::span<const double> rest(values);
    std::size_t place = 0;
    for (const std::uint32_t block : blocks) {
      for (; place < state.block_count() && state.block(place) < block; ++place) {
        sum += squared_norm(weights_of(state.ridge(place)));
      }
      const std::span<const double> mine = rest.first(all.length(block));
      rest = rest.subspan(mine.size());
      if (place < state.block_count() && state.block(place) == block) {
        sum += mcnb::squared_distance(mine, weights_of(state.ridge(place)));
        ++place;
      } else {
        sum += squared_norm(mine);
      }
    }
    for (; place < state.block_count(); ++place) {
      sum += squared_norm(weights_of(state.ridge(place)));
    }
    return sum;
  }
};

// SCLUB: users in disjoint clusters, at first one of all, that split and merge. An arm is scored by
// the ridge state of all samples of its user's cluster, as in LinUCB.
//
// A round is a reward learned. In it the user u that it is about is checked, and leaves its cluster
// c for one of its own when ||w_u - w_c|| > alpha_w (F(T_u) + F(T_c)), w_c and T_c as they were at
// the phase's start, or |p_u - p_v| > 2 alpha_p F(t) for a member v. p is the share of a user in
// the rounds so far (start data count in T and w, but are no rounds), for a cluster the mean of its
// members. Then clusters all of whose members have been checked in this phase are merged: two for
// which ||w_1 - w_2|| < alpha_w/2 (F(T_1) + F(T_2)) and |p_1 - p_2| < alpha_p F(t).
//
// What the paper leaves open, and where we depart from it:
// - A cluster born by a merge has, until the next phase, w_c and T_c as they were at its birth;
//   one that a user left goes on with those of the phase's start. A cluster of one does not split.
// - Clusters are numbered as they are born. Of all pairs that can be merged the one with the lowest
//   numbers is, until there are none: the larger of two takes in the other, of equal ones the
//   older.
// - Users that come later begin in clusters of their own. In a common one, having had no rounds,
//   they would drive out everybody who has had many.
//
// A round costs, beside its arms, the comparison of the served user's cluster with all clusters
// that are fully checked, d multiplications each; not the number of users. Pairs of other clusters
// can only have come closer by their shares, as t grows: those whose weights agree are kept, and
// looked at in every round. Of the shares in a cluster only the lowest and the highest matter,
// phases begin for a cluster when it is next touched, and the smaller of two clusters is the one
// that moves.
class Sclub final : public Policy {
 public:
  Sclub(const SclubOptions& options, const PolicySetup& setup)
      : options_(options),
        users_(setup.users, setup.inputs, options.lambda),
        threads_(*setup.threads),
        members_(setup.users) {
    if (setup.users > 0) {
      std::vector<UserId> everybody(setup.users);
      std::ranges::generate(everybody,
                            [next = std::uint32_t{0}]() mutable { return UserId{next++}; });
      add_cluster(std::move(everybody));
    }
  }

  std::size_t user_count() const override { return users_.count(); }

  void add_users(std::size_t count) override {
    users_.add_users(count);
    for (std::size_t user = members_.size(); user < users_.count(); ++user) {
      members_.emplace_back();
      add_cluster({UserId{static_cast<std::uint32_t>(user)}});
    }
  }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    Cluster& cluster = cluster_of(user);
    enter_phase(cluster, phase_of(rewards_));
    take_in(user, cluster, sample);
    changed_.insert(members_[index(user)].cluster);
  }

  ArmIndex choose(const Round& round) override {
    if (!has_long_features(round)) {
      return highest(scores(round));
    }
    users_.check_round(round);
    return choose_by_bounds(round, users_, exploration_scale(options_.alpha, rewards_), threads_,
                            std::bind_front(&Sclub::find_ridge, this));
  }

  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    const double scale = exploration_scale(options_.alpha, rewards_);
    const auto make_score = [&](const Arm& arm, const RidgePrediction& said) {
      const double bonus = scale * said.uncertainty;
      return Score{.value = said.estimate + bonus,
                   .estimate = said.estimate,
                   .meta_bonus = bonus,
                   .cluster_size = cluster_of(arm.user).members.size()};
    };
    std::vector<Score> scores;
    score_arms(round, users_, threads_, std::bind_front(&Sclub::find_ridge, this), make_score,
               scores);
    return scores;
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    std::vector<UserId> members = cluster_of(arm.user).members;
    std::ranges::sort(members);
    return members;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    ++rewards_;
    const std::uint32_t phase = phase_of(rewards_);
    if (phase != phase_of(rewards_ - 1)) {
      checked_.clear();
      agreeing_.clear();
    }
    const std::uint64_t number = members_[index(arm.user)].cluster;
    Cluster& cluster = clusters_.at(number);
    enter_phase(cluster, phase);
    take_in(arm.user, cluster, {arm.features, reward});
    count_round(arm.user, cluster);
    changed_.insert(number);
    if (should_leave(arm.user, cluster)) {
      changed_.insert(split_off(arm.user, cluster));
    }
    merge_while_possible();
  }

  std::size_t memory_bytes() const override {
    constexpr std::size_t kTreeNode = 4 * sizeof(void*);
    std::size_t bytes = sizeof *this - sizeof users_ + users_.memory_bytes() +
                        members_.capacity() * sizeof members_[0] +
                        (checked_.size() + changed_.size()) * (kTreeNode + sizeof(std::uint64_t)) +
                        agreeing_.size() * (kTreeNode + sizeof(Pair));
    for (const auto& [number, cluster] : clusters_) {
      bytes += kTreeNode + sizeof number + sizeof cluster - sizeof cluster.state +
               cluster.state.memory_bytes() + cluster.members.capacity() * sizeof(UserId) +
               cluster.with_rounds.size() * (kTreeNode + 2 * sizeof(std::uint64_t)) +
               cluster.old.blocks.capacity() * sizeof(std::uint32_t) +
               cluster.old.values.capacity() * sizeof(double);
    }
    return bytes;
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    writer.write(rewards_);
    writer.write(next_number_);
    for (const Member& member : members_) {
      writer.write(member.rounds);
      writer.write(member.checked_in);
    }
    writer.write(static_cast<std::uint64_t>(clusters_.size()));
    for (const auto& [number, cluster] : clusters_) {
      writer.write(number);
      writer.write(cluster.phase);
      writer.write_all(cluster.members);
      writer.write(cluster.old.samples);
      writer.write_all(cluster.old.blocks);
      writer.write_all(cluster.old.values);
      cluster.state.save(writer);
    }
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
    next_number_ = reader.read<std::uint64_t>();
    clusters_.clear();
    checked_.clear();
    changed_.clear();
    agreeing_.clear();
    load_members(reader);
    const auto count = reader.read<std::uint64_t>();
    std::size_t placed = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      placed += load_cluster(reader);
    }
    if (placed != users_.count()) {
      reader.fail("a user is in no cluster");
    }
  }

 private:
  static constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();
  using Pair = std::pair<std::uint64_t, std::uint64_t>;  // of clusters, the lower number first

  // What is known of a user beside its linear state.
  struct Member {
    std::uint64_t cluster = kNowhere;
    std::uint64_t rounds = 0;
    std::uint32_t place = 0;       // in the cluster's members
    std::uint32_t checked_in = 0;  // the last phase in which it was checked
  };

  struct Cluster {
    explicit Cluster(const LinearUsers& users) : state(users) {}

    std::vector<UserId> members;
    std::map<std::uint64_t, std::uint32_t> with_rounds;  // how many members had so many rounds
    std::uint64_t rounds = 0;                            // of all members
    std::uint32_t phase = 0;                             // the last one it was touched in
    std::size_t checked = 0;                             // members checked in that phase
    Weights old;                                         // at the start of that phase
    GroupState state;                                    // of all members
  };

  Cluster& cluster_of(UserId user) { return clusters_.at(members_[index(user)].cluster); }

  const RidgeState* find_ridge(const Arm& arm, std::uint32_t block) {
    return cluster_of(arm.user).state.find(block);
  }

  Cluster& add_cluster(std::vector<UserId> members) {
    Cluster& cluster = clusters_.emplace(next_number_, Cluster(users_)).first->second;
    for (const UserId user : members) {
      join(user, next_number_, cluster);
    }
    ++next_number_;
    cluster.state.join(rows_of(cluster));
    return cluster;
  }

  // In the linear states, of those members that have samples.
  std::vector<std::uint32_t> rows_of(const Cluster& cluster) const {
    std::vector<std::uint32_t> rows;
    for (const UserId user : cluster.members) {
      if (const std::optional<std::uint32_t> row = users_.row(user)) {
        rows.push_back(*row);
      }
    }
    return rows;
  }

  void join(UserId user, std::uint64_t number, Cluster& cluster) {
    Member& member = members_[index(user)];
    member.cluster = number;
    member.place = static_cast<std::uint32_t>(cluster.members.size());
    cluster.members.push_back(user);
    ++cluster.with_rounds[member.rounds];
    cluster.rounds += member.rounds;
  }

  void leave(UserId user, Cluster& cluster) {
    const Member& member = members_[index(user)];
    const UserId last = cluster.members.back();
    cluster.members[member.place] = last;
    members_[index(last)].place = member.place;
    cluster.members.pop_back();
    forget_rounds(member.rounds, cluster);
    cluster.rounds -= member.rounds;
  }

  static void forget_rounds(std::uint64_t rounds, Cluster& cluster) {
    const auto found = cluster.with_rounds.find(rounds);
    if (--found->second == 0) {
      cluster.with_rounds.erase(found);
    }
  }

  // Nothing of a cluster has changed since a phase began when it is first touched in it.
  void enter_phase(Cluster& cluster, std::uint32_t phase) {
    if (cluster.phase != phase) {
      cluster.phase = phase;
      cluster.checked = 0;
      cluster.old = Weights::of(cluster.state);
    }
  }

  void take_in(UserId user, Cluster& cluster, const Sample& sample) {
    const auto [row, block] = users_.add(user, sample.features, sample.reward);
    cluster.state.add(row, block, sample.features.values, sample.reward);
  }

  void count_round(UserId user, Cluster& cluster) {
    Member& member = members_[index(user)];
    forget_rounds(member.rounds, cluster);
    ++member.rounds;
    ++cluster.with_rounds[member.rounds];
    ++cluster.rounds;
    if (member.checked_in != cluster.phase) {
      member.checked_in = cluster.phase;
      ++cluster.checked;
    }
  }

  bool should_leave(UserId user, const Cluster& cluster) const {
    if (cluster.members.size() == 1) {
      return false;
    }
    const LinearState& own = *users_.find(user);
    const double distance = std::sqrt(cluster.old.squared_distance(own, users_.blocks()));
    const double allowed = options_.alpha_w * (confidence_width(own.sample_count()) +
                                               confidence_width(cluster.old.samples));
    const double share = share_of(members_[index(user)].rounds);
    const double lowest = share_of(cluster.with_rounds.begin()->first);
    const double highest = share_of(cluster.with_rounds.rbegin()->first);
    return distance > allowed || std::max(share - lowest, highest - share) >
                                     2.0 * options_.alpha_p * confidence_width(rewards_);
  }

  double share_of(std::uint64_t rounds) const {
    return static_cast<double>(rounds) / static_cast<double>(rewards_);
  }

  // Returns the number of the user's new cluster. Requires a user that has just been checked.
  std::uint64_t split_off(UserId user, Cluster& cluster) {
    leave(user, cluster);
    --cluster.checked;
    const std::uint32_t row = *users_.row(user);
    cluster.state.leave({&row, 1}, [&] { return rows_of(cluster); });
    Cluster& alone = add_cluster({user});
    alone.phase = cluster.phase;
    alone.checked = 1;
    return members_[index(user)].cluster;
  }

  void merge_while_possible() {
    for (const std::uint64_t number : std::exchange(changed_, {})) {
      compare(number);
    }
    const auto can_merge = [&](const Pair& pair) {
      return shares_agree(clusters_.at(pair.first), clusters_.at(pair.second));
    };
    for (auto pair = std::ranges::find_if(agreeing_, can_merge); pair != agreeing_.end();
         pair = std::ranges::find_if(agreeing_, can_merge)) {
      compare(merge(pair->first, pair->second));
    }
  }

  // Finds anew with which clusters one that has changed agrees.
  void compare(std::uint64_t number) {
    forget_pairs(number);
    const Cluster& cluster = clusters_.at(number);
    if (cluster.phase != phase_of(rewards_) || cluster.checked != cluster.members.size()) {
      return;
    }
    checked_.insert(number);
    const Weights weights = Weights::of(cluster.state);
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

  bool weights_agree(const Weights& weights, const GroupState& other) const {
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

  // Returns the number of the union. Requires two checked clusters.
  std::uint64_t merge(std::uint64_t a, std::uint64_t b) {
    const std::size_t size_a = clusters_.at(a).members.size();
    const std::size_t size_b = clusters_.at(b).members.size();
    const std::uint64_t host = size_a == size_b ? std::min(a, b) : (size_a > size_b ? a : b);
    const std::uint64_t guest = host == a ? b : a;
    Cluster& cluster = clusters_.at(host);
    const Cluster& other = clusters_.at(guest);
    cluster.state.join(rows_of(other));
    for (const UserId user : other.members) {
      join(user, host, cluster);
    }
    cluster.checked = cluster.members.size();
    cluster.old = Weights::of(cluster.state);
    clusters_.erase(guest);
    checked_.erase(guest);
    forget_pairs(guest);
    return host;
  }

  void load_members(StateReader& reader) {
    members_.clear();
    std::uint64_t rounds = 0;
    for (std::size_t user = 0; user < users_.count(); ++user) {
      Member& member = members_.emplace_back();
      member.rounds = reader.read<std::uint64_t>();
      member.checked_in = reader.read<std::uint32_t>();
      if (member.rounds > users_.sample_count(UserId{static_cast<std::uint32_t>(user)}) ||
          member.rounds > rewards_ - rounds || member.checked_in > phase_of(rewards_) ||
          (member.rounds > 0) != (member.checked_in > 0)) {
        reader.fail("a user had rounds that there were not");
      }
      rounds += member.rounds;
    }
    if (rounds != rewards_) {
      reader.fail("a round was nobody's");
    }
  }

  // Returns the number of its members.
  std::size_t load_cluster(StateReader& reader) {
    const auto number = reader.read<std::uint64_t>();
    if (number >= next_number_ || (!clusters_.empty() && number <= clusters_.rbegin()->first)) {
      reader.fail("the clusters are not in their order");
    }
    Cluster& cluster = clusters_.emplace(number, Cluster(users_)).first->second;
    cluster.phase = reader.read<std::uint32_t>();
    for (const UserId user : reader.read_all<UserId>(users_.count())) {
      if (index(user) >= users_.count() || members_[index(user)].cluster != kNowhere) {
        reader.fail("a cluster has a member that it cannot have");
      }
      join(user, number, cluster);
      cluster.checked += members_[index(user)].checked_in == cluster.phase ? 1 : 0;
    }
    load_old_weights(reader, cluster.old);
    cluster.state.load(reader, rows_of(cluster));
    if (cluster.members.empty() || cluster.phase > phase_of(rewards_)) {
      reader.fail("a cluster is not one that could have been");
    }
    if (rewards_ > 0 && cluster.phase == phase_of(rewards_) &&
        cluster.checked == cluster.members.size()) {
      checked_.insert(number);
    }
    changed_.insert(number);  // what it agrees with is found out again
    return cluster.members.size();
  }

  void load_old_weights(StateReader& reader, Weights& old) const {
    old.samples = reader.read<std::uint64_t>();
    old.blocks = reader.read_all<std::uint32_t>(users_.blocks().size());
    std::size_t length = 0;
    for (std::size_t i = 0; i < old.blocks.size(); ++i) {
      if (old.blocks[i] >= users_.blocks().size() ||
          (i > 0 && old.blocks[i] <= old.blocks[i - 1])) {
        reader.fail("the blocks of old weights are not in their order");
      }
      length += users_.blocks().length(old.blocks[i]);
    }
    old.values = reader.read_all<double>(length);
    if (old.values.size() != length ||
        !std::ranges::all_of(old.values, [](double value) { return std::isfinite(value); })) {
      reader.fail("old weights are not ones that could have been learned");
    }
  }

  SclubOptions options_;
  LinearUsers users_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
  std::vector<Member> members_;                // by user
  std::map<std::uint64_t, Cluster> clusters_;  // by number
  std::uint64_t next_number_ = 0;
  std::set<std::uint64_t> checked_;  // clusters of which every member was checked in this phase
  std::set<Pair> agreeing_;          // of these, pairs with weights close enough to merge
  std::set<std::uint64_t> changed_;  // clusters whose pairs have to be found anew
};

std::unique_ptr<Policy> build(const OptionValues& options, const PolicySetup& setup) {
  return std::make_unique<Sclub>(parse(options), setup);
}

}  // namespace

PolicyKind sclub_policy() {
  return {.name = "sclub",
          .help = "linear clustering bandit: sets of users that split and merge",
          .paper =
              "Li, Chen, Li, Leung: Improved Algorithm on Online Clustering of Bandits, IJCAI 2019",
          .options = [] { return option_table().help(); },
          .resolve = [](const OptionValues& o) { return option_table().values(parse(o)); },
          .build = build};
}

}  // namespace mcnb
