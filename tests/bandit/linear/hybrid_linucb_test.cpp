#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "mcnb/bandit/linear/hybrid_ridge.h"
#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy_kind.h"
#include "tests/bandit/policy_cases.h"

namespace mcnb::hybrid_linucb_test {
namespace {

using cases::OwnRound;
using cases::World;
using plain::expect_error;

constexpr double kTolerance = 1e-8;

// Hybrid LinUCB in textbook form: one dense ridge regression over the shared coefficients and those
// of every user on every block.
class PlainHybrid {
 public:
  PlainHybrid(const World& world, bool products, double lambda, double alpha)
      : world_(world), products_(products), alpha_(alpha) {
    const auto inputs = static_cast<Eigen::Index>(world.features);
    own_ = 1 + inputs;
    shared_ = own_ + (products ? inputs * (inputs + 1) / 2 : 0);
    const std::size_t blocks = world.blocks ? world.arms : 1;
    for (std::uint32_t user = 0; user < world.users; ++user) {
      for (std::uint32_t block = 0; block < blocks; ++block) {
        columns_[{UserId{user}, block * world.features}] = next_columns();
      }
    }
    const Eigen::Index spare = own_ * static_cast<Eigen::Index>(blocks);  // for `replace`
    const Eigen::Index size = end_ + spare;
    m_ = lambda * Eigen::MatrixXd::Identity(size, size);
    b_ = Eigen::VectorXd::Zero(size);
  }

  std::vector<Score> scores(const Round& round) const {
    const Eigen::LLT<Eigen::MatrixXd> solver(m_);
    const Eigen::VectorXd w = solver.solve(b_);
    std::vector<Score> scores;
    for (const Arm& arm : round.arms) {
      const Eigen::VectorXd x = whole(arm.user, arm.features);
      const double variance = x.dot(solver.solve(x));
      scores.emplace_back(
          x.dot(w),
          std::initializer_list<ScorePart>{
              {"uncertainty",
               alpha_ * std::sqrt(variance * std::log(1.0 + static_cast<double>(time_)))}});
    }
    return scores;
  }

  void add(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(user, features);
    m_ += x * x.transpose();
    b_ += reward * x;
  }
  void next_round() { ++time_; }

  // The samples that follow belong to other coefficients of the user's own. Once per test.
  void replace(UserId user) {
    for (auto& [key, column] : columns_) {
      if (key.first == user) {
        column = next_columns();
      }
    }
  }

 private:
  Eigen::Index next_columns() {
    const Eigen::Index column = std::max(end_, shared_);
    end_ = column + own_;
    return column;
  }

  // A sample's features for all coefficients of the regression.
  Eigen::VectorXd whole(UserId user, const Features& features) const {
    const auto inputs = static_cast<Eigen::Index>(world_.features);
    Eigen::VectorXd x(inputs);
    std::ranges::copy(features.values, x.data());
    Eigen::VectorXd all = Eigen::VectorXd::Zero(m_.rows());
    all.head(own_) << 1.0, x;
    Eigen::Index next = own_;
    for (Eigen::Index i = 0; products_ && i < inputs; ++i) {
      for (Eigen::Index j = i; j < inputs; ++j) {
        all[next++] = x[i] * x[j];
      }
    }
    all.segment(columns_.at({user, features.offset}), own_) << 1.0, x;
    return all;
  }

  World world_;
  bool products_;
  double alpha_;
  std::uint64_t time_ = 1;
  Eigen::Index own_;
  Eigen::Index shared_;
  Eigen::Index end_ = 0;  // of the columns that are taken
  std::map<std::pair<UserId, std::uint32_t>, Eigen::Index>
      columns_;  // the first, by user and offset
  Eigen::MatrixXd m_;
  Eigen::VectorXd b_;
};

// A policy and the textbook, in step.
class Pair {
 public:
  Pair(const World& world, bool products, double lambda)
      : world_(world),
        textbook_(world, products, lambda, 0.3),
        policy_(find_policy("linucb").build({{"users", "hybrid"},
                                             {"products", products ? "yes" : "no"},
                                             {"alpha", "0.3"},
                                             {"lambda", number_text(lambda)}},
                                            cases::setup_of(world, threads_))) {}

  Policy& policy() { return *policy_; }

  void start() {
    const OwnRound own = cases::draw_start(world_);
    for (const Arm& arm : own.round.arms) {
      const float reward = own.rewards[index(arm.index)];
      policy_->start(arm.user, {arm.features, reward});
      textbook_.add(arm.user, arm.features, reward);
    }
  }

  void play(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t id = from; id < to; ++id) {
      OwnRound own = cases::draw_round(world_, id);
      for (Arm& arm : own.round.arms) {  // of any users, several in one round
        arm.user = UserId{static_cast<std::uint32_t>(
            (index(arm.user) + index(arm.index) * (id / 2)) % world_.users)};
      }
      expect_equal(own.round);
      const ArmIndex choice = policy_->choose(own.round);
      ASSERT_EQ(choice, highest(textbook_.scores(own.round))) << "round " << id;
      const Arm& arm = own.arm(choice);
      policy_->learn(own.round.id, arm, own.rewards[index(choice)]);
      textbook_.add(arm.user, arm.features, own.rewards[index(choice)]);
      textbook_.next_round();
    }
  }

  void expect_equal(const Round& round) {
    const std::vector<Score> scores = policy_->scores(round);
    const std::vector<Score> expected = textbook_.scores(round);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(scores[i].estimate, expected[i].estimate, kTolerance) << index(round.id);
      ASSERT_NEAR(scores[i].value, expected[i].value, kTolerance) << index(round.id);
    }
  }

  void forget(UserId user) {
    EXPECT_TRUE(policy_->forget(user));
    textbook_.replace(user);
  }

  void learn(const Arm& arm, float reward) {
    policy_->learn(RoundId{0}, arm, reward);
    textbook_.add(arm.user, arm.features, reward);
    textbook_.next_round();
  }

 private:
  World world_;
  ThreadPool threads_{2};
  PlainHybrid textbook_;
  std::unique_ptr<Policy> policy_;
};

// Calls test(world, products, lambda) for vectors and blocks, with products and without.
template <class Test>
void for_every_form(Test test) {
  for (const World& world : {World{.seed = 3}, World{.features = 3, .blocks = true}}) {
    for (const bool products : {false, true}) {
      for (const double lambda : {1.0, 0.01}) {
        SCOPED_TRACE(testing::Message() << (world.blocks ? "blocks" : "vectors") << ", products "
                                        << products << ", lambda " << lambda);
        test(world, products, lambda);
      }
    }
  }
}

TEST(HybridLinUcb, ChoosesAsTheDenseJointRegressionDoes) {
  for_every_form([](const World& world, bool products, double lambda) {
    Pair pair(world, products, lambda);
    pair.play(0, 100);
    pair.start();
    pair.play(100, 250);
  });
}

TEST(HybridLinUcb, StaysExactOverManySamples) {
  const World world{.features = 4, .users = 2};
  Pair pair(world, true, 0.001);
  OwnRound own;
  for (std::uint64_t id = 0; id < 20'000; ++id) {
    own = cases::draw_round(world, id);
    pair.learn(own.round.arms[0], own.rewards[0]);
  }
  pair.expect_equal(own.round);
}

TEST(HybridLinUcb, AForgottenUserBeginsAnewAndTheSharedPartKeepsWhatItLearned) {
  for_every_form([](const World& world, bool products, double lambda) {
    Pair pair(world, products, lambda);
    pair.play(0, 60);
    pair.forget(UserId{1});
    pair.play(60, 120);
  });
}

TEST(HybridLinUcb, ForgetRefusesAnUnknownUser) {
  const World world;
  Pair pair(world, false, 1.0);
  expect_error(ErrorKind::kInput, "user 3 is unknown, there are 3 users",
               [&] { pair.policy().forget(UserId{3}); });
}

TEST(HybridLinUcb, AUserWithoutSamplesGetsWhatTheOthersShare) {
  const World world;
  ThreadPool threads(1);
  const auto policy =
      find_policy("linucb").build({{"users", "hybrid"}}, cases::setup_of(world, threads));
  Arm arm = cases::draw_round(world, 0).round.arms[0];
  const std::vector<float> x(world.features, 0.4F);
  arm.features = {x, 0};
  arm.user = UserId{1};
  policy->learn(RoundId{0}, arm, 1.0F);
  const auto estimate_for = [&](std::uint32_t user) {
    Round round{.id = RoundId{1}, .arms = {arm}};
    round.arms[0].user = UserId{user};
    return policy->scores(round)[0].estimate;
  };
  EXPECT_GT(estimate_for(2), 0.1);
  EXPECT_GT(estimate_for(1), estimate_for(2));
}

TEST(HybridLinUcb, APartOfAVectorCountsAsTheVectorWithZeros) {
  ThreadPool threads(1);
  const World world{.features = 6};
  const auto build = [&] {
    return find_policy("linucb").build({{"users", "hybrid"}, {"products", "yes"}},
                                       cases::setup_of(world, threads));
  };
  const auto short_arms = build();
  const auto long_arms = build();
  const std::vector<float> whole{0.0F, 0.0F, 0.5F, -0.25F, 0.0F, 0.0F};
  Arm part{.features = {std::span(whole).subspan(2, 2), 2}};
  Arm all{.features = {whole, 0}};
  short_arms->learn(RoundId{0}, part, 1.0F);
  long_arms->learn(RoundId{0}, all, 1.0F);
  EXPECT_TRUE(cases::saved(*short_arms) == cases::saved(*long_arms));
  EXPECT_EQ(short_arms->scores({RoundId{1}, {part}})[0].value,
            long_arms->scores({RoundId{1}, {all}})[0].value);
}

TEST(HybridLinUcb, CostsNothingForBlocksWithoutSamples) {
  ThreadPool threads(1);
  const World world{.features = 4, .arms = 500, .users = 500, .blocks = true};
  const auto policy =
      find_policy("linucb").build({{"users", "hybrid"}}, cases::setup_of(world, threads));
  cases::Session session(world, cases::Arrival::kAtOnce);
  session.play(*policy, 0, 40);
  EXPECT_LT(policy->memory_bytes(), 40 * 1024U);
}

TEST(HybridLinUcb, StaysFiniteOnLongArmsAndLargeRewards) {
  ThreadPool threads(1);
  for (const float length : {1e-6F, 1e6F, 1e12F}) {
    const World world;
    const auto policy = find_policy("linucb").build({{"users", "hybrid"}, {"products", "yes"}},
                                                    cases::setup_of(world, threads));
    for (std::uint64_t id = 0; id < 100; ++id) {
      OwnRound own = cases::draw_round(world, id);
      for (std::vector<float>& features : own.features) {
        for (float& value : features) {
          value *= length;
        }
      }
      for (const Score& score : policy->scores(own.round)) {
        ASSERT_TRUE(std::isfinite(score.value)) << length;
      }
      policy->learn(own.round.id, own.round.arms[0], id % 2 == 0 ? kLargestReward : 0.0F);
    }
  }
}

TEST(HybridLinUcb, RefusesArmsItCannotTake) {
  ThreadPool threads(1);
  const auto build = [&](const World& world, const char* products) {
    return find_policy("linucb").build({{"users", "hybrid"}, {"products", products}},
                                       cases::setup_of(world, threads));
  };
  expect_error(ErrorKind::kUsage,
               "option users: hybrid takes at most 4096 shared coefficients; arms of 784 features "
               "need 308505, fewer with products=no",
               [&] { build({.features = 784, .blocks = true}, "yes"); });
  expect_error(ErrorKind::kUsage, "arms of 5000 features need 5001",
               [&] { build({.features = 5000}, "no"); });
  EXPECT_NO_THROW(build({.features = 784, .blocks = true}, "no"));

  const World blocks{.features = 3, .blocks = true};
  const auto policy = build(blocks, "no");
  const std::string before = cases::saved(*policy);
  OwnRound own = cases::draw_round(blocks, 6);
  const std::string words = "expected a block of 3 features at a multiple of 3, got 3 at 4";
  own.round.arms[1].features.offset = 4;
  expect_error(ErrorKind::kInput, "round 6, arm 1: " + words, [&] { policy->choose(own.round); });
  expect_error(ErrorKind::kInput, "feedback on round 6, arm 1: " + words,
               [&] { policy->learn(RoundId{6}, own.round.arms[1], 1.0F); });
  expect_error(ErrorKind::kInput, "start of user 1: " + words, [&] {
    policy->start(UserId{1}, {own.round.arms[1].features, 1.0F});
  });
  EXPECT_TRUE(cases::saved(*policy) == before);
}

// The state of a policy for two users with one feature, of whom one has samples.
struct SavedHybrid {
  std::vector<std::uint64_t> users = {1};
  std::vector<double> shared = {1.0, 0.0, 0.0, 1.0, 0.0};
  std::vector<double> own = {1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0};

  void load() const {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    writer.write(std::uint64_t{2});  // users
    writer.write_all(users);
    writer.write_all(shared);
    for (std::size_t i = 0; i < users.size(); ++i) {
      writer.write_all(own);
    }
    writer.write(std::uint64_t{1});  // rewards
    writer.finish();
    ThreadPool threads(1);
    const auto policy = find_policy("linucb").build({{"users", "hybrid"}},
                                                    {.inputs = 1, .users = 2, .threads = &threads});
    cases::load(*policy, out.str());
  }
};

TEST(HybridLinUcb, RefusesStatesThatNoneCouldHaveSaved) {
  SavedHybrid{}.load();
  const auto refused = [](const std::string& words, const SavedHybrid& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { saved.load(); });
  };
  refused("belong to a user that cannot have them", {.users = {2}});
  refused("belong to a user that cannot have them", {.users = {1, 1}});
  refused("another size", {.shared = {1.0, 0.0, 0.0, 1.0}});
  refused("a number that is not finite", {.shared = {1.0, NAN, 0.0, 1.0, 0.0}});
  refused("a diagonal that is not positive", {.shared = {1.0, 0.0, 0.0, 0.0, 0.0}});
  refused("a diagonal that is not positive",
          {.own = {1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0}});
}

}  // namespace
}  // namespace mcnb::hybrid_linucb_test
