#include <gtest/gtest.h>

#include <Eigen/Dense>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/policy_cases.h"
#include "tests/sanitizers.h"

namespace mcnb::kernelucb_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;

constexpr double kTolerance = 1e-9;  // of scores of size one, both in double precision

struct Settings {
  double bandwidth = 1.0;
  double lambda = 1.0;
  double alpha = 0.5;
  std::uint64_t limit = 1000;
  bool each = false;

  OptionValues values() const {
    return {{"bandwidth", number_text(bandwidth)},
            {"lambda", number_text(lambda)},
            {"alpha", number_text(alpha)},
            {"history_limit", std::to_string(limit)},
            {"users", each ? "each" : "one"}};
  }
};

// KernelUCB as in the paper: whole vectors and the full kernel matrix, solved again in each round.
class PlainKernelUcb {
 public:
  PlainKernelUcb(const World& world, const Settings& settings)
      : settings_(settings),
        shape_{.inputs = world.inputs()},
        histories_(settings.each ? world.users : 1) {}

  std::vector<double> scores(const Round& round) const {
    std::vector<double> scores;
    for (const Arm& arm : round.arms) {
      scores.push_back(score(arm));
    }
    return scores;
  }

  void add(UserId user, const Features& features, double reward) {
    const std::size_t owner = settings_.each ? index(user) : 0;
    History& history = histories_[owner];
    ++history.met;
    if (history.met > settings_.limit) {
      // The new sample is kept with probability limit / met.
      const std::uint64_t leaver =
          Rng(7, Stream::kReservoir, history.met - 1, static_cast<std::uint32_t>(owner))
              .below(history.met);
      if (leaver >= settings_.limit) {
        return;
      }
      history.events.erase(history.events.begin() + static_cast<std::ptrdiff_t>(leaver));
    }
    history.events.push_back({plain::dense(shape_, features), reward});
  }

 private:
  struct Event {
    std::vector<double> x;
    double reward;
  };
  struct History {
    std::uint64_t met = 0;
    std::vector<Event> events;
  };

  double kernel(const std::vector<double>& x, const std::vector<double>& y) const {
    const double distance = plain::distance(x, y);
    return std::exp(-distance * distance / (2.0 * settings_.bandwidth * settings_.bandwidth));
  }

  double score(const Arm& arm) const {
    const std::vector<Event>& events = histories_[settings_.each ? index(arm.user) : 0].events;
    const std::vector<double> x = plain::dense(shape_, arm.features);
    const auto count = static_cast<Eigen::Index>(events.size());
    Eigen::MatrixXd ridge(count, count);
    Eigen::VectorXd k(count);
    Eigen::VectorXd rewards(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const Event& event = events[static_cast<std::size_t>(i)];
      for (Eigen::Index j = 0; j < count; ++j) {
        ridge(i, j) = kernel(event.x, events[static_cast<std::size_t>(j)].x) +
                      (i == j ? settings_.lambda : 0.0);
      }
      k[i] = kernel(event.x, x);
      rewards[i] = event.reward;
    }
    const double scale = settings_.alpha / std::sqrt(settings_.lambda);
    if (count == 0) {
      return scale;
    }
    const Eigen::PartialPivLU<Eigen::MatrixXd> solver(ridge);
    return k.dot(solver.solve(rewards)) +
           scale * std::sqrt(std::max(0.0, 1.0 - k.dot(solver.solve(k))));
  }

  Settings settings_;
  NetworkShape shape_;
  std::vector<History> histories_;
};

// A policy and its twin, which get the same rounds and rewards.
void expect_matches_textbook(const World& world, const Settings& settings, bool late) {
  SCOPED_TRACE(testing::Message() << (world.blocks ? "blocks" : "dense") << ", limit "
                                  << settings.limit << (settings.each ? ", each" : ", one"));
  ThreadPool threads(2);
  const auto policy =
      find_policy("kernelucb").build(settings.values(), cases::setup_of(world, threads));
  PlainKernelUcb textbook(world, settings);
  const OwnRound start = cases::draw_start(world);
  for (const Arm& arm : start.round.arms) {
    const float reward = start.rewards[index(arm.index)];
    policy->start(arm.user, {arm.features, reward});
    textbook.add(arm.user, arm.features, reward);
  }
  std::deque<std::pair<OwnRound, ArmIndex>> waiting;
  for (std::uint64_t id = 0; id < (kThreadSanitized ? 200 : 500); ++id) {
    OwnRound own = cases::draw_round(world, id);
    const std::vector<Score> scores = policy->scores(own.round);
    const std::vector<double> expected = textbook.scores(own.round);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(scores[i].value, expected[i], kTolerance) << "round " << id << ", " << i;
      ASSERT_DOUBLE_EQ(scores[i].value, cases::sum_of(scores[i]));
    }
    const ArmIndex choice = policy->choose(own.round);
    ASSERT_EQ(index(choice),
              static_cast<std::size_t>(std::ranges::max_element(expected) - expected.begin()));
    waiting.emplace_back(std::move(own), choice);
    if (!late || waiting.size() > 10) {
      const auto& [old, chosen] = late && id % 2 == 0 ? waiting.back() : waiting.front();
      const float reward = old.rewards[index(chosen)];
      policy->learn(old.round.id, old.arm(chosen), reward);
      textbook.add(old.arm(chosen).user, old.arm(chosen).features, reward);
      late&& id % 2 == 0 ? waiting.pop_back() : waiting.pop_front();
    }
  }
}

TEST(KernelUcb, ChoosesAsTheTextbookDoesOnDenseFeatures) {
  expect_matches_textbook({.features = 5}, {.limit = 60}, false);
  expect_matches_textbook({.features = 5, .seed = 2},
                          {.bandwidth = 0.5, .lambda = 0.05, .limit = 40}, true);
  expect_matches_textbook({.features = 5, .seed = 3}, {.limit = 30, .each = true}, false);
  expect_matches_textbook({.features = 5, .seed = 4}, {.limit = 1}, false);
}

TEST(KernelUcb, ChoosesAsTheTextbookDoesOnBlocksOfALongVector) {
  expect_matches_textbook({.blocks = true}, {.limit = 60}, true);
  expect_matches_textbook({.users = 4, .blocks = true, .seed = 2},
                          {.bandwidth = 0.7, .lambda = 0.1, .limit = 30, .each = true}, false);
}

TEST(KernelUcb, ExploresInTheFirstRound) {
  const World world;
  ThreadPool threads(1);
  for (const char* users : {"one", "each"}) {
    const auto policy =
        find_policy("kernelucb")
            .build({{"alpha", "3"}, {"lambda", "4"}, {"users", users}}, setup_of(world, threads));
    for (const Score& score : policy->scores(cases::draw_round(world, 0).round)) {
      EXPECT_EQ(score.estimate, 0.0);
      EXPECT_EQ(score.value, 1.5);
    }
  }
}

TEST(KernelUcb, LearnsWhatNoLineCanFit) {
  const World world{.users = 1};
  ThreadPool threads(1);
  const auto policy = find_policy("kernelucb").build({{"lambda", "0.1"}}, setup_of(world, threads));
  double late_regret = 0.0;
  double random_regret = 0.0;
  for (std::uint64_t id = 0; id < 600; ++id) {
    const OwnRound own = cases::draw_round(world, id);
    const ArmIndex choice = policy->choose(own.round);
    const float reward = own.rewards[index(choice)];
    policy->learn(own.round.id, own.arm(choice), reward);
    if (id >= 400) {
      const float best = *std::ranges::max_element(own.rewards);
      late_regret += best - reward;
      random_regret += best - own.rewards[0];
    }
  }
  EXPECT_LT(late_regret, 0.1 * random_regret);
}

// With a narrow kernel a point is known only if it is among the samples held.
TEST(KernelUcb, KeepsAUniformSampleOfAllSamples) {
  ThreadPool threads(1);
  const World world{.features = 4, .users = 1};
  constexpr std::size_t kCame = 100;
  constexpr std::size_t kHeld = 20;
  constexpr std::uint64_t kSeeds = 50;
  std::vector<OwnRound> rounds;
  for (std::uint64_t id = 0; id < kCame; ++id) {
    rounds.push_back(cases::draw_round(world, id));
  }
  std::vector<std::size_t> held(5);  // by the time when they came
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    PolicySetup setup = cases::setup_of(world, threads);
    setup.seed = seed;
    const auto policy =
        find_policy("kernelucb")
            .build({{"bandwidth", "0.001"}, {"history_limit", std::to_string(kHeld)}}, setup);
    for (const OwnRound& own : rounds) {
      policy->learn(own.round.id, own.round.arms[0], 1.0F);
    }
    std::size_t all = 0;
    for (std::size_t i = 0; i < kCame; ++i) {
      const bool is_held = policy->scores(rounds[i].round)[0].estimate > 0.25;
      held[i * held.size() / kCame] += is_held ? 1 : 0;
      all += is_held ? 1 : 0;
    }
    ASSERT_EQ(all, kHeld);
  }
  for (const std::size_t count : held) {  // 200 expected, standard deviation 11
    EXPECT_GT(count, 150U);
    EXPECT_LT(count, 250U);
  }
}

TEST(KernelUcb, DoesNotGrowForEver) {
  ThreadPool threads(1);
  const World world;
  const auto policy =
      find_policy("kernelucb").build({{"history_limit", "30"}}, cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 31);
  const std::size_t full = policy->memory_bytes();
  session.play(*policy, 31, 600);
  EXPECT_EQ(policy->memory_bytes(), full);
}

TEST(KernelUcb, OneRegressionLearnsForAllUsersAndEachForItself) {
  const World world;
  ThreadPool threads(1);
  const OwnRound own = cases::draw_round(world, 0);
  Arm arm = own.round.arms[0];
  arm.user = UserId{1};
  Round other = own.round;
  for (Arm& each : other.arms) {
    each.user = UserId{2};
  }
  for (const bool each : {false, true}) {
    const auto policy = find_policy("kernelucb")
                            .build({{"users", each ? "each" : "one"}}, setup_of(world, threads));
    policy->learn(RoundId{0}, arm, 1.0F);
    const Score score = policy->scores(other)[0];
    EXPECT_EQ(score.estimate == 0.0, each);
    EXPECT_EQ(score.cluster_size, each ? 1U : world.users);
    EXPECT_GT(score.part("uncertainty"), 0.0);
  }
}

TEST(KernelUcb, ManyArmsGiveTheSameOnAnyNumberOfThreads) {
  const World world{.arms = 200};
  std::vector<double> expected;
  for (const std::size_t count : {1U, 2U, 8U}) {
    ThreadPool threads(count);
    const auto policy = find_policy("kernelucb").build({}, setup_of(world, threads));
    cases::Session session(world, cases::Arrival::kAtOnce);
    session.play(*policy, 0, 50);
    if (count == 1) {
      expected = session.values();
    }
    EXPECT_TRUE(cases::same_bits(session.values(), expected)) << count << " threads";
  }
}

TEST(KernelUcb, RefusesStatesThatNoneCouldHaveSaved) {
  const World world;
  ThreadPool threads(1);
  const auto load = [&](std::uint64_t users, std::uint32_t owner, std::uint64_t met,
                        const char* kind) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    writer.write(users);
    writer.write(std::uint64_t{2});
    for (const std::uint32_t each : {owner, owner}) {
      writer.write(each);
      writer.write(met);
      for (int i = 0; i < 4; ++i) {
        writer.write(std::uint64_t{0});  // an empty regression
      }
    }
    writer.finish();
    cases::load(*find_policy("kernelucb").build({{"users", kind}}, setup_of(world, threads)),
                out.str());
  };
  const auto refused = [&](const std::string& words, auto... values) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load(values...); });
  };
  refused("belongs to a user that", 3U, 3U, 0U, "each");  // unknown
  refused("belongs to a user that", 3U, 1U, 0U, "one");   // everybody's belongs to user 0
  refused("belongs to a user that", 3U, 1U, 0U, "each");  // twice
  refused("as many samples", 3U, 1U, 5U, "each");
  refused("more users", std::uint64_t{1} << 33, 1U, 0U, "each");
}

TEST(KernelUcb, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const std::string& name, const std::string& value) {
    expect_error(ErrorKind::kUsage, "option " + name, [&] {
      find_policy("kernelucb").resolve({{name, value}});
    });
  };
  refused("bandwidth", "0");
  refused("lambda", "0");
  refused("alpha", "-1");
  refused("history_limit", "0");
  refused("history_limit", "20001");
  refused("users", "two");
  EXPECT_EQ(find_policy("kernelucb").options().size(), 5U);
}

}  // namespace
}  // namespace mcnb::kernelucb_test
