#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <deque>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/plain_user_graph.h"
#include "tests/bandit/textbook_neural.h"
#include "tests/sanitizers.h"

namespace mcnb::neural_linear_test {
namespace {

using cases::OwnRound;
using cases::PlainUserGraph;
using cases::World;
using plain::expect_error;
using textbook::NeuralCase;

constexpr double kLambda = 0.5;
constexpr double kAlpha = 0.2;

struct Case {
  NeuralCase neural;
  double alpha_2 = 0.5;
  bool random = false;

  OptionValues options() const {
    OptionValues options = neural.neural_options();
    options["lambda"] = number_text(kLambda);
    options["alpha"] = number_text(kAlpha);
    options["alpha_2"] = number_text(alpha_2);
    options["graph"] = random ? "random" : "complete";
    return options;
  }
};

// CLUB on the last hidden layer, with all sums, inverses and components computed again each time
// from all samples.
class TextbookNeuralLinear {
 public:
  TextbookNeuralLinear(const Case& what, const PolicySetup& setup)
      : case_(what),
        seed_(setup.seed),
        network_(what.neural, setup.inputs, setup.seed),
        graph_(what.random ? PlainUserGraph::Kind::kRandom : PlainUserGraph::Kind::kComplete,
               setup.users, setup.seed),
        users_(setup.users) {}

  void start(UserId user, const Sample& sample) { add(user, sample); }

  void add_users(std::size_t count) {
    graph_.add_newcomers(count, known_);
    users_.resize(users_.size() + count);
  }

  double score(RoundId, const Arm& arm) const {
    const Eigen::VectorXd h = hidden(arm.features);
    Eigen::MatrixXd m = kLambda * Eigen::MatrixXd::Identity(h.size(), h.size());
    Eigen::VectorXd b = Eigen::VectorXd::Zero(h.size());
    for (const std::size_t member : graph_.component(index(arm.user))) {
      add_sums(users_[member], m, b);
    }
    const double time = 1.0 + static_cast<double>(rewards_);
    return h.dot(m.ldlt().solve(b)) +
           kAlpha * std::sqrt(h.dot(m.ldlt().solve(h)) * std::log(1.0 + time));
  }

  void learn(const Arm& arm, float reward) {
    add(arm.user, {arm.features, reward});
    const std::size_t u = index(arm.user);
    for (std::size_t j = 0; j < users_.size(); ++j) {
      const double allowed =
          case_.alpha_2 * (width(users_[u].samples.size()) + width(users_[j].samples.size()));
      if (graph_.linked(u, j) && (weights(users_[u]) - weights(users_[j])).norm() > allowed) {
        graph_.cut(u, j);
      }
    }
    if (case_.neural.training_is_due(++rewards_)) {
      network_.train(NeuralCase::kTrainSteps, Rng(seed_, Stream::kTrainingOrder, rewards_));
      for (User& user : users_) {
        for (PastSample& sample : user.samples) {
          sample.hidden = hidden(sample.features.view());
        }
      }
    }
  }

  const PlainUserGraph& graph() const { return graph_; }

 private:
  struct PastSample {
    plain::OwnFeatures features;
    Eigen::VectorXd hidden;  // at the time it came, or of the last training
    double reward;
  };
  struct User {
    std::vector<PastSample> samples;
  };

  static double width(std::size_t samples) {
    const double count = 1.0 + static_cast<double>(samples);
    return std::sqrt((1.0 + std::log(count)) / count);
  }

  // The derivatives of f by the weights of the last layer.
  Eigen::VectorXd hidden(const Features& x) const {
    const std::size_t start = network_.plain().layer(case_.neural.depth).start;
    return network_.gradient(x).segment(static_cast<Eigen::Index>(start), case_.neural.width);
  }

  static void add_sums(const User& user, Eigen::MatrixXd& m, Eigen::VectorXd& b) {
    for (const PastSample& sample : user.samples) {
      m += sample.hidden * sample.hidden.transpose();
      b += sample.reward * sample.hidden;
    }
  }

  Eigen::VectorXd weights(const User& user) const {
    const Eigen::Index d = case_.neural.width;
    Eigen::MatrixXd m = kLambda * Eigen::MatrixXd::Identity(d, d);
    Eigen::VectorXd b = Eigen::VectorXd::Zero(d);
    add_sums(user, m, b);
    return m.ldlt().solve(b);
  }

  void add(UserId user, const Sample& sample) {
    const std::span<const float> values = sample.features.values;
    if (users_[index(user)].samples.empty()) {
      known_.push_back(index(user));
    }
    users_[index(user)].samples.push_back({{{values.begin(), values.end()}, sample.features.offset},
                                           hidden(sample.features),
                                           sample.reward});
    network_.add(sample);
  }

  Case case_;
  std::uint64_t seed_;
  textbook::Network network_;
  PlainUserGraph graph_;
  std::vector<User> users_;
  std::vector<std::size_t> known_;  // in the order of their first samples
  std::uint64_t rewards_ = 0;
};

struct Play {
  bool late = false;               // feedback comes three rounds late, two by two in wrong order
  std::uint64_t newcomers_at = 0;  // two more users; 0: never
};

// The clusters of all users.
void expect_same_clusters(Policy& policy, const TextbookNeuralLinear& textbook, OwnRound own) {
  for (std::uint32_t user = 0; user < policy.user_count(); ++user) {
    Arm& arm = own.round.arms[0];
    arm.user = UserId{user};
    std::vector<UserId> expected;
    for (const std::size_t member : textbook.graph().component(user)) {
      expected.push_back(UserId{static_cast<std::uint32_t>(member)});
    }
    ASSERT_EQ(policy.cluster(arm).value(), expected) << user;
  }
}

// Expects the policy's scores and choice to be the textbook's. The choice may differ only if the
// textbook's best two scores are closer than single precision can tell; returns true if it does.
bool expect_same_choice(const OwnRound& own, const std::vector<Score>& scores, ArmIndex choice,
                        const TextbookNeuralLinear& textbook) {
  std::vector<double> expected;
  for (const Arm& arm : own.round.arms) {
    expected.push_back(textbook.score(own.round.id, arm));
    EXPECT_NEAR(scores[index(arm.index)].value, expected.back(), textbook::kTolerance);
    EXPECT_EQ(scores[index(arm.index)].cluster_size,
              textbook.graph().component(index(arm.user)).size());
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(expected) - expected.begin());
  if (index(choice) == best) {
    return false;
  }
  EXPECT_NEAR(expected[index(choice)], expected[best], 2.0 * textbook::kTolerance);
  return true;
}

// Compares every score, choice and cluster with the textbook's. Returns the number of components at
// the end.
std::size_t expect_matches_textbook(const Case& what, const Play& play = {}) {
  SCOPED_TRACE(what.neural.name() + (what.random ? ", random graph" : ", complete graph"));
  ThreadPool threads(2);
  World world = what.neural.world;
  const PolicySetup setup = cases::setup_of(world, threads);
  const auto policy = find_policy("neural-linear").build(what.options(), setup);
  TextbookNeuralLinear textbook(what, setup);
  const OwnRound start = cases::draw_start(world);
  for (const Arm& arm : start.round.arms) {
    const Sample sample{arm.features, start.rewards[index(arm.index)]};
    policy->start(arm.user, sample);
    textbook.start(arm.user, sample);
  }
  struct Given {
    OwnRound own;
    ArmIndex choice;
  };
  std::deque<Given> waiting;
  const auto learn_next = [&] {
    const Given given = std::move(waiting.front());
    waiting.pop_front();
    const float reward = given.own.rewards[index(given.choice)];
    policy->learn(given.own.round.id, given.own.arm(given.choice), reward);
    textbook.learn(given.own.arm(given.choice), reward);
  };
  std::size_t unsure = 0;
  constexpr std::uint64_t kRounds = kThreadSanitized ? 180 : 520;
  for (std::uint64_t id = 0; id < kRounds && !testing::Test::HasFatalFailure(); ++id) {
    if (play.newcomers_at > 0 && id == play.newcomers_at) {
      policy->add_users(2);
      textbook.add_users(2);
      world.users += 2;
    }
    OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = policy->scores(own.round);
    const ArmIndex choice = policy->choose(own.round);
    SCOPED_TRACE(id);
    unsure += expect_same_choice(own, scores, choice, textbook) ? 1 : 0;
    expect_same_clusters(*policy, textbook, own);
    waiting.push_back({std::move(own), choice});
    if (!play.late) {
      learn_next();
    } else if (waiting.size() > 3) {
      if (id % 2 == 0) {
        std::swap(waiting[0], waiting[1]);
      }
      learn_next();
    }
  }
  EXPECT_LE(unsure, kRounds / 100);
  return textbook.graph().component_count();
}

TEST(NeuralLinear, ChoosesAsTheTextbookDoes) {
  for (const bool blocks : {false, true}) {
    for (const bool random : {false, true}) {
      // Half of the users' samples are more than the width, so that they are summed up.
      const std::size_t components =
          expect_matches_textbook({.neural = {.world = {.users = 8, .blocks = blocks},
                                              .width = 20,
                                              .depth = random ? 3U : 2U,
                                              .biases = random},
                                   .random = random});
      EXPECT_GT(components, 1U);
    }
  }
}

TEST(NeuralLinear, ChoosesAsTheTextbookDoesWhenItLearnsOnline) {
  for (const bool blocks : {false, true}) {
    const std::size_t components = expect_matches_textbook(
        {.neural = {.world = {.users = 8, .blocks = blocks}, .width = 20, .online = true}});
    EXPECT_GT(components, 1U);
  }
}

TEST(NeuralLinear, ChoosesAsTheTextbookDoesWhileUsersComeAndFeedbackIsLate) {
  for (const bool online : {false, true}) {
    const std::size_t components =
        expect_matches_textbook({.neural = {.world = {.users = 6}, .width = 20, .online = online}},
                                {.late = true, .newcomers_at = 200});
    EXPECT_GT(components, 1U);
  }
}

TEST(NeuralLinear, RefusesWidthsWhoseRegressionsWouldBeTooLarge) {
  expect_error(ErrorKind::kUsage, "option width: expected at most 4096", [] {
    find_policy("neural-linear").resolve({{"width", "4097"}});
  });
  EXPECT_NO_THROW(find_policy("neural-linear").resolve({{"width", "4096"}}));
}

TEST(NeuralLinear, IsClubWhereTheNetworkNeverLearns) {
  const World world{.users = 6};
  ThreadPool threads(1);
  const PolicySetup setup = cases::setup_of(world, threads);
  const auto policy =
      find_policy("neural-linear")
          .build({{"train_steps", "0"}, {"width", "12"}, {"alpha_2", "0.4"}}, setup);
  PolicySetup on_hidden = setup;
  on_hidden.inputs = 12;
  const auto club = find_policy("club").build({{"alpha_2", "0.4"}}, on_hidden);
  const NetworkShape shape{.inputs = world.inputs(), .width = 12};
  const std::vector<float> network = random_network(shape, Initialisation::kPaper, setup.seed);
  for (std::uint64_t id = 0; id < 200; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    Round seen = own.round;
    std::vector<GradientFactors> factors(seen.arms.size());
    for (std::size_t i = 0; i < seen.arms.size(); ++i) {
      find_gradient(shape, network, own.round.arms[i].features, factors[i]);
      seen.arms[i].features = {std::span(factors[i].activations).first(12), 0};
    }
    const std::vector<Score> scores = policy->scores(own.round);
    const std::vector<Score> expected = club->scores(seen);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(scores[i].value, expected[i].value, 1e-9) << id;
      ASSERT_EQ(scores[i].cluster_size, expected[i].cluster_size) << id;
    }
    const std::size_t choice = index(policy->choose(own.round));
    policy->learn(own.round.id, own.round.arms[choice], own.rewards[choice]);
    club->learn(seen.id, seen.arms[choice], own.rewards[choice]);
  }
}

TEST(NeuralLinear, UsersWithFewSamplesCostLittle) {
  const World world{.features = 10, .users = 3};
  ThreadPool threads(1);
  PolicySetup setup = cases::setup_of(world, threads);
  setup.users = 20'000;
  const auto policy = find_policy("neural-linear").build({{"train_steps", "1"}}, setup);
  const OwnRound own = cases::draw_round(world, 0);
  const auto learn = [&](std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t user = first; user < first + count; ++user) {
      policy->start(UserId{user}, {own.round.arms[user % 4].features, 1.0F});
    }
    return policy->memory_bytes();
  };
  const std::size_t before = learn(0, 100);
  const std::size_t after = learn(100, 1000);
  // 100 features and as many weights: 1.2 kB, and something for the lists. A whole regression would
  // be 160 kB.
  EXPECT_LE(after - before, std::size_t{1000} * 4000);
}

TEST(NeuralLinear, RegressionsThatWereOnlyLookedAtMakeRoom) {
  const World world{.arms = 2, .users = 100};
  ThreadPool threads(1);
  const auto policy = find_policy("neural-linear")
                          .build({{"alpha_2", "0"}, {"train_every", "100"}, {"train_steps", "1"}},
                                 cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 0);
  const auto round_of = [&](std::uint32_t user) {
    for (Arm& arm : own.round.arms) {
      arm.user = UserId{user};
    }
    return own.round;
  };
  for (std::uint32_t user = 0; user < 100; ++user) {  // all edges go; then a training
    policy->learn(RoundId{user}, round_of(user).arms[0], 1.0F);
  }
  const std::size_t before = policy->memory_bytes();
  std::vector<double> values;
  for (int times = 0; times < 2; ++times) {
    for (std::uint32_t user = 0; user < 100; ++user) {
      const std::vector<Score> scores = policy->scores(round_of(user));
      EXPECT_EQ(scores[0].cluster_size, 1U);
      values.push_back(scores[0].value);
    }
  }
  EXPECT_LE(policy->memory_bytes(), before + std::size_t{70} * 170'000);
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + 100, values.begin() + 100));
}

TEST(NeuralLinear, AHistoryLimitBoundsItsMemory) {
  const World world;
  ThreadPool threads(1);
  const auto policy = find_policy("neural-linear")
                          .build({{"width", "8"}, {"history_limit", "20"}, {"train_steps", "20"}},
                                 cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 300);
  const std::size_t memory = policy->memory_bytes();
  session.play(*policy, 300, 1500);
  EXPECT_LE(policy->memory_bytes(), memory + 4096);
}

TEST(NeuralLinear, RefusesFeaturesTooLargeForTheNetwork) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("neural-linear").build({{"width", "50"}}, cases::setup_of(world, threads));
  OwnRound own = cases::draw_round(world, 4);
  std::ranges::fill(own.features[1], 3e38F);
  const std::string before = cases::saved(*policy);
  expect_error(ErrorKind::kInput, "round 4, arm 1: the network's value is",
               [&] { policy->choose(own.round); });
  expect_error(ErrorKind::kInput, "feedback on round 4, arm 1: the network's value is",
               [&] { policy->learn(RoundId{4}, own.round.arms[1], 1.0F); });
  expect_error(ErrorKind::kInput, "start of user 2: the network's value is", [&] {
    policy->start(UserId{2}, {own.round.arms[1].features, 1.0F});
  });
  EXPECT_TRUE(cases::saved(*policy) == before);
}

}  // namespace
}  // namespace mcnb::neural_linear_test
