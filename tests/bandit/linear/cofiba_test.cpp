#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <map>
#include <set>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/numeric/kmeans.h"
#include "tests/bandit/comparison.h"
#include "tests/bandit/plain_user_graph.h"

namespace mcnb::cofiba_test {
namespace {

using cases::Arrival;
using cases::OwnRound;
using cases::PlainUserGraph;
using cases::World;
using plain::expect_error;

struct Options {
  double lambda = 1.0;
  double alpha = 0.3;
  double alpha_2 = 1.0;
  std::size_t most_items = 1000;
  std::size_t item_groups = 20;

  OptionValues values() const {
    return {{"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"alpha_2", number_text(alpha_2)},
            {"items", "auto"},
            {"most_items", std::to_string(most_items)},
            {"item_groups", std::to_string(item_groups)}};
  }
};

// COFIBA as in the paper: full matrices, with all sums, inverses, components and neighbourhoods
// computed again each time. Every item knows its user graph.
class PlainCofiba {
 public:
  PlainCofiba(const World& world, const Options& options, std::uint64_t seed)
      : shape_{.inputs = world.inputs()},
        options_(options),
        seed_(seed),
        users_(world.users, User(world.inputs(), options.lambda)) {
    graphs_.push_back(fresh_graph());
  }

  void add_users(std::size_t count) {
    users_.resize(users_.size() + count, User(shape_.inputs, options_.lambda));
    for (PlainUserGraph& graph : graphs_) {
      graph.add_newcomers(count, met_);
    }
  }

  std::set<std::size_t> cluster(const Arm& arm) const {
    return graphs_[graph_of(arm)].component(index(arm.user));
  }

  double score(const Arm& arm) const {
    User all(shape_.inputs, options_.lambda);
    for (const std::size_t member : cluster(arm)) {
      all.m += users_[member].m - User(shape_.inputs, options_.lambda).m;
      all.b += users_[member].b;
    }
    const Eigen::MatrixXd inverse = all.m.inverse();
    const Eigen::VectorXd x = whole(arm.features);
    return x.dot(inverse * all.b) +
           options_.alpha *
               std::sqrt(x.dot(inverse * x) * std::log(1.0 + static_cast<double>(time_)));
  }

  void add(UserId user, const Features& features, double reward) {
    add_sample(user, features, reward);
    gather(features);
  }

  void learn(const Arm& arm, double reward) {
    add_sample(arm.user, arm.features, reward);
    gather(arm.features);
    ++time_;
    const std::optional<std::size_t> item = meet(arm);
    const std::size_t u = index(arm.user);
    const Eigen::VectorXd x = whole(arm.features);
    const std::set<std::size_t> friends = neighbourhood(u, x);
    PlainUserGraph& graph = graphs_[item ? items_[*item].graph : 0];
    for (std::size_t j = 0; j < users_.size(); ++j) {
      if (graph.linked(u, j) && friends.count(j) == 0) {
        graph.cut(u, j);
      }
    }
    if (!item) {
      return;
    }
    for (std::size_t other = 0; other < items_.size(); ++other) {
      if (linked_[*item][other] && neighbourhood(u, items_[other].x) != friends) {
        linked_[*item][other] = linked_[other][*item] = false;
      }
    }
    // Every part of the old component gets its own graph, except the part with the item.
    const std::size_t old = items_[*item].graph;
    const std::set<std::size_t> own = component(*item);
    for (std::size_t other = 0; other < items_.size(); ++other) {
      if (items_[other].graph == old && own.count(other) == 0) {
        for (const std::size_t member : component(other)) {
          items_[member].graph = graphs_.size();
        }
        graphs_.push_back(fresh_graph());
      }
    }
  }

  std::size_t item_component_count() const {
    std::set<std::size_t> graphs;
    for (const Item& item : items_) {
      graphs.insert(item.graph);
    }
    return graphs.size();
  }
  std::size_t item_count() const { return items_.size(); }
  // The number of components of the user graph with the most components.
  std::size_t most_user_components() const {
    std::size_t most = 0;
    for (const PlainUserGraph& graph : graphs_) {
      most = std::max(most, graph.component_count());
    }
    return most;
  }

 private:
  struct User {
    User(std::uint32_t inputs, double lambda)
        : m(lambda * Eigen::MatrixXd::Identity(inputs, inputs)), b(Eigen::VectorXd::Zero(inputs)) {}

    Eigen::MatrixXd m;
    Eigen::VectorXd b;
  };
  struct Item {
    Eigen::VectorXd x;
    std::size_t graph;
  };
  enum class Identity { kIds, kBlocks, kGroups };

  PlainUserGraph fresh_graph() const {
    return {PlainUserGraph::Kind::kComplete, users_.size(), seed_};
  }

  Eigen::VectorXd whole(const Features& features) const {
    const std::vector<double> x = plain::dense(shape_, features);
    return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }

  void add_sample(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features);
    users_[index(user)].m += x * x.transpose();
    users_[index(user)].b += reward * x;
    if (std::ranges::find(met_, index(user)) == met_.end()) {
      met_.push_back(index(user));
    }
  }

  void gather(const Features& features) {
    if (features.values.size() == shape_.inputs &&
        sample_.size() < 5 * options_.item_groups * shape_.inputs) {
      sample_.insert(sample_.end(), features.values.begin(), features.values.end());
    }
  }

  double confidence(std::size_t user, const Eigen::VectorXd& x) const {
    return options_.alpha_2 * options_.alpha *
           std::sqrt(x.dot(users_[user].m.inverse() * x) *
                     std::log(1.0 + static_cast<double>(time_)));
  }
  double estimate(std::size_t user, const Eigen::VectorXd& x) const {
    return x.dot(users_[user].m.inverse() * users_[user].b);
  }
  std::set<std::size_t> neighbourhood(std::size_t u, const Eigen::VectorXd& x) const {
    std::set<std::size_t> all;
    for (std::size_t j = 0; j < users_.size(); ++j) {
      if (std::abs(estimate(u, x) - estimate(j, x)) <= confidence(u, x) + confidence(j, x)) {
        all.insert(j);
      }
    }
    return all;
  }

  // ---- items

  std::optional<std::uint64_t> key(const Arm& arm) const {
    if (identity_ == Identity::kIds && arm.item != kNoItem) {
      return index(arm.item);
    }
    return identity_ == Identity::kBlocks ? std::optional<std::uint64_t>(arm.features.offset)
                                          : std::nullopt;
  }

  std::optional<std::size_t> nearest(const Eigen::VectorXd& x) const {
    std::optional<std::size_t> best;
    for (std::size_t item = 0; item < items_.size(); ++item) {
      if (!best || (items_[item].x - x).norm() < (items_[*best].x - x).norm()) {
        best = item;
      }
    }
    return best;
  }

  std::size_t graph_of(const Arm& arm) const {
    const std::optional<std::uint64_t> number = key(arm);
    if (number && known_.count(*number) != 0) {
      return items_[known_.at(*number)].graph;
    }
    const std::optional<std::size_t> item = nearest(whole(arm.features));
    return item ? items_[*item].graph : 0;
  }

  std::set<std::size_t> component(std::size_t item) const {
    std::set<std::size_t> found = {item};
    std::vector<std::size_t> queue = {item};
    while (!queue.empty()) {
      const std::size_t node = queue.back();
      queue.pop_back();
      for (std::size_t other = 0; other < items_.size(); ++other) {
        if (linked_[node][other] && found.insert(other).second) {
          queue.push_back(other);
        }
      }
    }
    return found;
  }

  void add_item(const Eigen::VectorXd& x, std::optional<std::size_t> like) {
    std::set<std::size_t> neighbours;
    if (like) {
      neighbours = component(*like);
    }
    items_.push_back({x, like ? items_[*like].graph : 0});
    for (std::vector<bool>& row : linked_) {
      row.push_back(false);
    }
    linked_.emplace_back(items_.size(), false);
    for (const std::size_t other : neighbours) {
      linked_[other].back() = linked_.back()[other] = true;
    }
  }

  std::optional<std::size_t> meet(const Arm& arm) {
    const Eigen::VectorXd x = whole(arm.features);
    const bool too_many =
        items_.size() == options_.most_items && known_.count(index(arm.item)) == 0;
    if (identity_ == Identity::kIds && (arm.item == kNoItem || too_many)) {
      identity_ =
          arm.features.values.size() < shape_.inputs ? Identity::kBlocks : Identity::kGroups;
      items_.clear();
      linked_.clear();
      known_.clear();
      graphs_.assign(1, fresh_graph());
    }
    if (identity_ == Identity::kGroups) {
      if (items_.empty() && sample_.size() == 5 * options_.item_groups * shape_.inputs) {
        const KMeans found = k_means(sample_, shape_.inputs, options_.item_groups, seed_);
        for (std::size_t i = 0; i < found.centres.size(); i += shape_.inputs) {
          add_item(whole({std::span(found.centres).subspan(i, shape_.inputs), 0}),
                   items_.empty() ? std::nullopt : std::optional<std::size_t>(0));
        }
      }
      return nearest(x);
    }
    const std::uint64_t number = key(arm).value();
    if (known_.count(number) == 0) {
      const std::optional<std::size_t> like = nearest(x);
      known_[number] = items_.size();
      add_item(x, like);
    }
    items_[known_[number]].x = x;
    return known_[number];
  }

  NetworkShape shape_;
  Options options_;
  std::uint64_t seed_;
  std::vector<std::size_t> met_;  // users, in the order of their first samples
  std::vector<User> users_;
  std::vector<PlainUserGraph> graphs_;
  Identity identity_ = Identity::kIds;
  std::map<std::uint64_t, std::size_t> known_;  // items by id or offset
  std::vector<Item> items_;
  std::vector<std::vector<bool>> linked_;
  std::vector<float> sample_;
  std::uint64_t time_ = 1;
};

// Items of a catalogue, and users in three groups, each with a linear taste.
OwnRound draw_items(const World& world, std::uint64_t id, std::uint32_t catalogue, bool ids) {
  Rng rng(world.seed, Stream::kTest, id, 77);
  OwnRound own;
  own.round.id = RoundId{id};
  const auto user = static_cast<std::uint32_t>(rng.below(world.users));
  Rng tastes(world.seed, Stream::kTest, user % 3, 79);
  const std::vector<float> taste = cases::draw_unit(tastes, world.features);
  const std::vector<std::uint64_t> items = rng.sample_without_replacement(catalogue, world.arms);
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    Rng looks(world.seed, Stream::kTest, items[i], 78);
    own.features.push_back(cases::draw_unit(looks, world.features));
    double reward = 0.05 * rng.normal();
    for (std::size_t k = 0; k < world.features; ++k) {
      reward += static_cast<double>(taste[k]) * own.features.back()[k];
    }
    own.rewards.push_back(static_cast<float>(reward));
    own.round.arms.push_back(
        {.index = ArmIndex{i},
         .user = UserId{user},
         .item = ids ? ItemId{static_cast<std::uint32_t>(items[i])} : kNoItem});
  }
  for (std::uint32_t i = 0; i < world.arms; ++i) {
    own.round.arms[i].features = {own.features[i], 0};
  }
  return own;
}

using Draw = std::function<OwnRound(const World&, std::uint64_t)>;

struct Comparison : cases::Comparison<PlainCofiba> {
  Comparison(const World& world, const Options& options, Arrival arrival, ThreadPool& threads,
             Draw draw)
      : cases::Comparison<PlainCofiba>(
            {.world = world, .arrival = arrival, .draw = std::move(draw)},
            find_policy("cofiba").build(options.values(), cases::setup_of(world, threads)),
            PlainCofiba(world, options, cases::setup_of(world, threads).seed)) {}
};

// Plays, and requires that items and users separate gradually, not at once.
void expect_splits(Comparison& both, std::uint64_t begin, std::uint64_t end) {
  std::set<std::size_t> item_components;
  std::set<std::size_t> user_components;
  for (std::uint64_t id = begin; id < end; id += 25) {
    both.play(id, id + 25);
    item_components.insert(both.twin().item_component_count());
    user_components.insert(both.twin().most_user_components());
  }
  EXPECT_GE(item_components.size(), 3U) << "items do not come apart";
  EXPECT_GE(user_components.size(), 2U) << "users do not come apart";
  EXPECT_EQ(*user_components.begin(), 1U);
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereItemsHaveIds) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    for (const double alpha : {0.7, 0.3}) {
      const World world{.features = 4, .users = 9};
      Comparison both(
          world, {.alpha = alpha}, arrival, threads,
          [](const World& now, std::uint64_t id) { return draw_items(now, id, 12, true); });
      both.start(cases::draw_start(world));
      expect_splits(both, 0, 600);
      EXPECT_GE(both.twin().item_count(), 10U);
    }
  }
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereGroupsStandForItems) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    const World world{.features = 4, .users = 9};
    Comparison both(
        world, {.alpha = 0.5, .item_groups = 8}, arrival, threads,
        [](const World& now, std::uint64_t id) { return draw_items(now, id, 100, false); });
    both.start(cases::draw_start(world));
    both.play(0, 25);
    EXPECT_EQ(both.twin().item_count(), 0U);
    expect_splits(both, 25, 600);
    EXPECT_EQ(both.twin().item_count(), 8U);
  }
}

TEST(Cofiba, ChoosesAsThePaperDoesWhereClassesStandForItems) {
  ThreadPool threads(2);
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kLate}) {
    const World world{.features = 3, .arms = 5, .users = 5, .blocks = true};
    Comparison both(world, {.alpha = 0.3}, arrival, threads, cases::draw_round);
    both.start(cases::draw_start(world));
    expect_splits(both, 0, 600);
    EXPECT_EQ(both.twin().item_count(), 5U);
  }
}

// No start data, users who come later, and ids that turn out to be too many.
TEST(Cofiba, ChoosesAsThePaperDoesWhileUsersAndItemsCome) {
  ThreadPool threads(2);
  const World world{.features = 3, .users = 6};
  const auto draw = [](const World& now, std::uint64_t id) {
    OwnRound own = draw_items(now, id, id < 100 ? 6 : id < 400 ? 14 : 20, true);
    for (Arm& arm : own.round.arms) {
      arm.item = ItemId{static_cast<std::uint32_t>(arm.item) * 300};  // any numbers will do
    }
    return own;
  };
  Comparison both(world, {.alpha = 0.4, .most_items = 14, .item_groups = 6}, Arrival::kAtOnce,
                  threads, draw);
  both.play(0, 150);
  both.add_users(2);
  both.play(150, 300);
  both.add_users(1);
  both.play(300, 400);
  EXPECT_GE(both.twin().item_component_count(), 2U);
  EXPECT_GT(both.twin().item_count(), 6U);
  both.play(400, 700);
  EXPECT_LE(both.twin().item_count(), 6U) << "groups stand for items now";
  EXPECT_GE(both.twin().item_component_count(), 2U);
  EXPECT_GE(both.twin().most_user_components(), 2U);
}

// Tests COFIBA with item ids; policies_test.cpp tests the same without ids.
TEST(Cofiba, GoesOnAlikeAfterALoadAndOnAnyNumberOfThreads) {
  const World world{.features = 4, .users = 9};
  const auto make = [&](ThreadPool& threads) {
    return find_policy("cofiba").build({{"alpha", "0.3"}, {"alpha_2", "1"}, {"items", "auto"}},
                                       cases::setup_of(world, threads));
  };
  const auto play = [&](Policy& policy, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t id = from; id < to; ++id) {
      const OwnRound own = draw_items(world, id, 12, true);
      const ArmIndex choice = policy.choose(own.round);
      policy.learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
    }
  };
  ThreadPool one(1);
  const auto through = make(one);
  play(*through, 0, 300);
  ThreadPool many(5);
  auto broken = make(many);
  for (const std::uint64_t from : {0U, 1U, 100U, 200U}) {
    play(*broken, from, from == 0 ? 1 : from == 1 ? 100 : from + 100);
    const std::string state = cases::saved(*broken);
    broken = make(many);
    cases::load(*broken, state);
    EXPECT_TRUE(cases::saved(*broken) == state) << from;
  }
  EXPECT_TRUE(cases::saved(*broken) == cases::saved(*through));
}

TEST(Cofiba, StartDataCutsNoEdges) {
  const World world{.users = 5};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build({{"alpha_2", "0"}, {"items", "auto"}},
                                                  cases::setup_of(world, threads));
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  const OwnRound own = cases::draw_round(world, 0);
  EXPECT_EQ(policy->cluster(own.round.arms[0])->size(), 5U);
  policy->learn(own.round.id, own.round.arms[0], 1.0F);
  EXPECT_EQ(*policy->cluster(own.round.arms[0]), std::vector<UserId>{own.round.arms[0].user});
}

// Users agree about one kind of items and not about the other; the clusters show it.
TEST(Cofiba, ClustersOfAUserDependOnTheItem) {
  const World world{.features = 2, .arms = 2, .users = 4};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.3"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  const std::vector<std::vector<float>> looks = {{1.0F, 0.0F}, {0.0F, 1.0F}};
  const auto arm = [&](std::uint32_t item, std::uint32_t user) {
    return Arm{.user = UserId{user}, .item = ItemId{item}, .features = {looks[item], 0}};
  };
  for (std::uint32_t round = 0; round < 400; ++round) {
    const std::uint32_t user = round % 4;
    const std::uint32_t item = round / 4 % 2;
    // All like item 1; only users 0 and 1 like item 0.
    policy->learn(RoundId{round}, arm(item, user), item == 1 || user < 2 ? 1.0F : 0.0F);
  }
  EXPECT_EQ(*policy->cluster(arm(0, 0)), (std::vector<UserId>{UserId{0}, UserId{1}}));
  EXPECT_EQ(*policy->cluster(arm(0, 3)), (std::vector<UserId>{UserId{2}, UserId{3}}));
  EXPECT_EQ(policy->cluster(arm(1, 0))->size(), 4U);
}

// Users with separate blocks have nothing to share, so no state is stored twice, however many user
// graphs there are.
TEST(Cofiba, UserGraphsCostNextToNothingWhereEveryUserHasABlock) {
  const World world{.features = 40, .arms = 8, .users = 8, .blocks = true};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.1"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  const auto alone =
      find_policy("linucb").build({{"users", "each"}}, cases::setup_of(world, threads));
  for (std::uint64_t id = 0; id < 400; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const ArmIndex choice = policy->choose(own.round);
    policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
    alone->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
  EXPECT_LT(policy->memory_bytes(), alone->memory_bytes() + 50'000);
}

// Ten items with a user graph each; every user is repeatedly cut from most of the others.
TEST(Cofiba, UserGraphsCostABitForEachUserOnlyWhereAUserCutEdges) {
  const World world{.features = 4, .users = 3000};
  ThreadPool threads(1);
  const auto policy = find_policy("cofiba").build(
      {{"alpha", "0.01"}, {"alpha_2", "1"}, {"items", "auto"}}, cases::setup_of(world, threads));
  cases::Session(world, Arrival::kAtOnce).start(*policy);
  const std::size_t before = policy->memory_bytes();
  for (std::uint64_t id = 0; id < 100; ++id) {
    const OwnRound own = draw_items(world, id, 10, true);
    const ArmIndex choice = policy->choose(own.round);
    policy->learn(own.round.id, own.arm(choice), own.rewards[index(choice)]);
  }
  // 100 rows of 3,000 bits, and ten graphs with a few states.
  EXPECT_LT(policy->memory_bytes() - before, 250'000U);
  EXPECT_GT(policy->memory_bytes() - before, 10'000U) << "nobody cut an edge";
}

TEST(Cofiba, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value,
                          const std::string& words) {
    expect_error(ErrorKind::kUsage, words, [&] { find_policy("cofiba").resolve({{name, value}}); });
  };
  refused("lambda", "0", "option lambda: expected a number in [1e-06, 1");
  refused("alpha", "-0.1", "option alpha: expected a number in [0, 1");
  refused("alpha_2", "-0.1", "option alpha_2: expected a number in [0, 1");
  refused("item_groups", "201", "option item_groups: expected a whole number in [1, 200]");
  refused("items", "ids", "option items: expected auto | groups");
  refused("most_items", "1001", "option most_items: expected a whole number in [1, 1000]");
  EXPECT_EQ(find_policy("cofiba").options().size(), 6U);
}

}  // namespace
}  // namespace mcnb::cofiba_test
