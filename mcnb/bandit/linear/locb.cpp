#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "mcnb/bandit/linear/linear_group.h"
#include "mcnb/bandit/linear/linear_size.h"
#include "mcnb/bandit/linear/linear_users.h"
#include "mcnb/bandit/linear/upper_bounds.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

struct LocbOptions {
  double lambda = 0.1;
  double alpha = 0.1;
  std::uint64_t seeds = 20;
  double gamma = 0.2;  // gamma_locb in the specification
};

OptionTable<LocbOptions> option_table() {
  using Options = LocbOptions;
  OptionTable<Options> table;
  table.number("lambda", &Options::lambda, {1e-6, 1e6}, "weight of the ridge: M = lambda I")
      .number("alpha", &Options::alpha, {0.0, 1e6}, "weight of the uncertainty")
      .count("seeds", &Options::seeds, {1, 1e6},
             "users around whom clusters are kept; all users if there are fewer")
      .number("gamma", &Options::gamma, {0.0, 4.0},
              "a cluster freezes when its seed is known to a quarter of this");
  return table;
}

// LOCB: clusters around seed users. They may overlap and need not contain everybody. The cluster of
// a seed s is {u : ||w_u - w_s|| <= F(T_u) + F(T_s)}. It follows all changes until
// F(T_s) <= gamma / 4. Then it freezes: nobody enters or leaves it, but it keeps learning from its
// members.
//
// An arm is scored, as in LinUCB, by the ridge state of all samples of a cluster. Of the clusters
// that contain the arm's user, the one with the highest score counts; ties go to the seed drawn
// first. If all arms have one user, this chooses the cluster with the highest best score. A user in
// no cluster is scored by its own state.
//
// Seeds are drawn without replacement from the users at the start. If there are fewer users than
// `seeds`, all are seeds, and users who come later become seeds until there are enough. Users who
// come after a cluster froze are not in it.
//
// Feedback on a user changes that user's memberships, O(seeds d). Feedback on a seed also compares
// all users with it, O(n d). Users without samples are all alike (w = 0, T = 0), so one bit of each
// cluster stands for all of them.
class Locb final : public Policy {
 public:
  Locb(const LocbOptions& options, const PolicySetup& setup)
      : options_(options),
        seed_(setup.seed),
        users_(0, setup.inputs, options.lambda),
        threads_(*setup.threads) {
    add_users(setup.users);
  }

  std::size_t user_count() const override { return users_.count(); }

  void add_users(std::size_t count) override {
    const std::size_t before = users_.count();
    users_.add_users(count);
    const std::size_t missing = static_cast<std::size_t>(options_.seeds) - clusters_.size();
    const std::vector<std::uint64_t> drawn =
        Rng(seed_, Stream::kLocbSeeds, before)
            .sample_without_replacement(count, std::min(missing, count));
    for (const std::uint64_t offset : drawn) {
      clusters_.emplace_back(UserId{static_cast<std::uint32_t>(before + offset)}, users_);
      clusters_.back().members.resize(users_.known_count());
      find_members(clusters_.back());
    }
  }

  void start(UserId user, const Sample& sample) override {
    users_.check_start(user, sample);
    take_in(user, sample);
  }

  ArmIndex choose(const Round& round) override {
    if (!has_long_features(round)) {
      return highest(scores(round));
    }
    users_.check_round(round);
    std::vector<Opinion> opinions;
    for (const Arm& arm : round.arms) {
      for_opinions(arm, [&](const Cluster*, const RidgeState* ridge) {
        opinions.push_back({arm.index, ridge});
      });
    }
    return choose_by_bounds(round, upper_bounds(), opinions);
  }

  std::size_t arms_apart() const override { return 1; }
  std::vector<Score> scores(const Round& round) override {
    users_.check_round(round);
    const double scale = exploration_scale(options_.alpha, rewards_);
    std::vector<Score> scores(round.arms.size());
    for_all_arms(round, threads_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        scores[i] = highest_cluster_score(round.arms[i], scale).score;
      }
    });
    return scores;
  }

  std::optional<std::vector<UserId>> cluster(const Arm& arm) override {
    users_.check_arm(arm);
    const Cluster* best =
        highest_cluster_score(arm, exploration_scale(options_.alpha, rewards_)).cluster;
    if (best == nullptr) {
      return std::vector{arm.user};
    }
    std::vector<UserId> members;
    for (std::size_t i = 0; i < users_.count(); ++i) {
      const UserId user{static_cast<std::uint32_t>(i)};
      if (contains(*best, user, users_.row(user))) {
        members.push_back(user);
      }
    }
    return members;
  }

  void learn(RoundId round, const Arm& arm, float reward) override {
    users_.check_feedback(round, arm, reward);
    take_in(arm.user, {arm.features, reward});
    ++rewards_;
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = sizeof *this - sizeof users_ + users_.memory_bytes() +
                        squares_.capacity() * sizeof squares_[0] +
                        (clusters_.capacity() - clusters_.size()) * sizeof clusters_[0];
    for (const Cluster& cluster : clusters_) {
      bytes += sizeof cluster - sizeof cluster.state + cluster.state.memory_bytes() +
               cluster.members.capacity();
    }
    return bytes;
  }

  void save(StateWriter& writer) const override {
    users_.save(writer);
    writer.write(rewards_);
    writer.write(static_cast<std::uint64_t>(clusters_.size()));
    for (const Cluster& cluster : clusters_) {
      writer.write(cluster.seed);
      writer.write(cluster.frozen);
      writer.write(cluster.holds_unknown);
      writer.write(cluster.users_then);
      writer.write(cluster.size_then);
      writer.write_all(cluster.members);
      cluster.state.save(writer);
    }
  }

  void load(StateReader& reader) override {
    users_.load(reader);
    rewards_ = reader.read<std::uint64_t>();
    const auto count = reader.read<std::uint64_t>();
    if (count != std::min<std::uint64_t>(options_.seeds, users_.count())) {
      reader.fail("the number of seeds is wrong");
    }
    clusters_.clear();
    std::unordered_set<UserId> seeds;
    for (std::uint64_t i = 0; i < count; ++i) {
      load_cluster(reader);
      if (!seeds.insert(clusters_.back().seed).second) {
        reader.fail("a user is a seed twice");
      }
    }
  }

 private:
  using Flag = std::uint8_t;  // 0 or 1, as it is saved

  struct Cluster {
    Cluster(UserId of, const LinearUsers& users) : seed(of), state(users) {}

    UserId seed;
    Flag frozen = 0;
    Flag holds_unknown = 0;        // users without samples are members
    std::uint64_t users_then = 0;  // users and members when it froze
    std::uint64_t size_then = 0;
    std::vector<Flag> members;  // by row of the known users
    std::size_t known_members = 0;
    LinearGroup state;  // of all members
  };

  // The score that one cluster gives to an arm.
  struct ClusterScore {
    Score score;
    const Cluster* cluster = nullptr;  // nullptr: the user's own state
  };

  // `row` is the user's row, if it has samples.
  static bool contains(const Cluster& cluster, UserId user, std::optional<std::uint32_t> row) {
    if (row) {
      return cluster.members[*row] != 0;
    }
    return cluster.holds_unknown != 0 && (cluster.frozen == 0 || index(user) < cluster.users_then);
  }

  std::size_t size_of(const Cluster& cluster) const {
    if (cluster.frozen != 0) {
      return static_cast<std::size_t>(cluster.size_then);
    }
    const std::size_t unknown = users_.count() - users_.known_count();
    return cluster.known_members + (cluster.holds_unknown != 0 ? unknown : 0);
  }

  // Calls visit(cluster, ridge state) for every cluster that contains the arm's user, in the order
  // of the seeds. If there is none, calls visit(nullptr, the user's own state). A state without
  // samples is nullptr.
  template <class Visit>
  void for_opinions(const Arm& arm, Visit visit) const {
    const std::optional<std::uint32_t> row = users_.row(arm.user);
    const std::optional<std::uint32_t> block = users_.blocks().find(arm.features);
    const RidgeState* last = nullptr;
    bool any = false;
    for (const Cluster& cluster : clusters_) {
      if (!contains(cluster, arm.user, row)) {
        continue;
      }
      const RidgeState* const ridge = block ? cluster.state.find(*block) : nullptr;
      if (any && ridge == last) {
        continue;  // both are the state of one member: the value would be equal
      }
      last = ridge;
      any = true;
      visit(&cluster, ridge);
    }
    if (!any) {
      visit(nullptr, row && block ? users_.state(*row).find(*block) : nullptr);
    }
  }

  UpperBounds upper_bounds() const {
    return {users_, threads_, exploration_scale(options_.alpha, rewards_)};
  }

  // Compares the scores that the clusters of the arm's user give to the arm.
  ClusterScore highest_cluster_score(const Arm& arm, double scale) const {
    std::optional<ClusterScore> best;
    for_opinions(arm, [&](const Cluster* cluster, const RidgeState* ridge) {
      const RidgePrediction said = predict(ridge, arm.features.values, options_.lambda);
      const Score score(said.estimate, {{"uncertainty", scale * said.uncertainty}},
                        cluster == nullptr ? 1 : size_of(*cluster));
      if (!best || score.value > best->score.value) {
        best = {score, cluster};
      }
    });
    return best.value();
  }

  void take_in(UserId user, const Sample& sample) {
    if (!users_.row(user)) {
      for (Cluster& cluster : clusters_) {
        const bool inside = contains(cluster, user, std::nullopt);
        cluster.members.push_back(inside ? 1 : 0);
        cluster.known_members += inside ? 1 : 0;
      }
    }
    const auto [row, block] = users_.add(user, sample.features, sample.reward);
    for (Cluster& cluster : clusters_) {
      if (cluster.members[row] != 0) {
        cluster.state.add(row, block, sample.features.values, sample.reward);
      }
      if (cluster.frozen != 0) {
        continue;
      }
      if (cluster.seed != user) {
        const double distance = users_.distance(user, cluster.seed);
        set_members(cluster, {&row, 1}, {&distance, 1});
        continue;
      }
      find_members(cluster);
      if (users_.width(row) <= options_.gamma / 4.0) {
        cluster.size_then = size_of(cluster);
        cluster.users_then = users_.count();
        cluster.frozen = 1;
      }
    }
  }

  double seed_width(const Cluster& cluster) const {
    const std::optional<std::uint32_t> row = users_.row(cluster.seed);
    return row ? users_.width(*row) : confidence_width(0);
  }

  // Finds all members of a cluster from the present weights.
  void find_members(Cluster& cluster) {
    const LinearState none(options_.lambda);
    const LinearState* own = users_.find(cluster.seed);
    const LinearState& state = own == nullptr ? none : *own;
    users_.squared_distances(state, squares_);
    std::vector<std::uint32_t> rows(squares_.size());
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      rows[row] = row;
      squares_[row] = std::sqrt(squares_[row]);
    }
    set_members(cluster, rows, squares_);
    const double width = confidence_width(0) + seed_width(cluster);
    cluster.holds_unknown = std::sqrt(state.squared_norm()) <= width ? 1 : 0;
  }

  // Lets known users in or out, given their distances from the seed.
  void set_members(Cluster& cluster, std::span<const std::uint32_t> rows,
                   std::span<const double> distances) {
    const double width = seed_width(cluster);
    std::vector<std::uint32_t> entering;
    std::vector<std::uint32_t> leaving;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Flag& member = cluster.members[rows[i]];
      const Flag inside = distances[i] <= users_.width(rows[i]) + width ? 1 : 0;
      if (inside != member) {
        (inside != 0 ? entering : leaving).push_back(rows[i]);
        member = inside;
      }
    }
    cluster.state.join(entering);
    cluster.state.leave(leaving, [&] { return rows_of(cluster); });
    cluster.known_members += entering.size();
    cluster.known_members -= leaving.size();
  }

  static std::vector<std::uint32_t> rows_of(const Cluster& cluster) {
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < cluster.members.size(); ++row) {
      if (cluster.members[row] != 0) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  void load_cluster(StateReader& reader) {
    const auto seed = reader.read<UserId>();
    if (index(seed) >= users_.count()) {
      reader.fail("a seed is a user that does not exist");
    }
    Cluster& cluster = clusters_.emplace_back(seed, users_);
    cluster.frozen = reader.read<Flag>();
    cluster.holds_unknown = reader.read<Flag>();
    cluster.users_then = reader.read<std::uint64_t>();
    cluster.size_then = reader.read<std::uint64_t>();
    cluster.members = reader.read_all<Flag>(users_.known_count());
    const auto is_flag = [](Flag flag) { return flag <= 1; };
    if (!is_flag(cluster.frozen) || !is_flag(cluster.holds_unknown) ||
        !std::ranges::all_of(cluster.members, is_flag) ||
        cluster.members.size() != users_.known_count() || cluster.users_then > users_.count() ||
        cluster.size_then > cluster.users_then) {
      reader.fail("a cluster does not fit the users");
    }
    const std::vector<std::uint32_t> rows = rows_of(cluster);
    cluster.known_members = rows.size();
    cluster.state.load(reader, rows);
  }

  LocbOptions options_;
  std::uint64_t seed_;
  LinearUsers users_;
  ThreadPool& threads_;
  std::uint64_t rewards_ = 0;
  std::vector<Cluster> clusters_;  // in the order in which their seeds were drawn
  std::vector<double> squares_;    // scratch of find_members
};

}  // namespace

PolicyKind locb_policy() {
  return policy_kind<Locb>(
      {.name = "locb",
       .help = "linear clustering bandit: overlapping clusters around seed users",
       .paper = "Ban, He: Local Clustering in Contextual Multi-Armed Bandits, WWW 2021",
       .values_before = {{"lambda", "1"}}},
      option_table(), [](const LocbOptions& options, const PolicySetup& setup) {
        const auto clusters = static_cast<double>(options.seeds);
        return linear_policy_size(setup,
                                  {.states = 2.0, .shared_states = 0.0, .clusters = clusters});
      });
}

}  // namespace mcnb
