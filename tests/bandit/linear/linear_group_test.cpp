#include "mcnb/bandit/linear/linear_group.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "tests/bandit/group_world.h"

namespace mcnb::linear_group_test {
namespace {

using cases::PlainState;
using plain::expect_error;

constexpr double kLambda = 0.3;
constexpr std::uint32_t kLength = 3;  // of a block
constexpr std::uint32_t kBlocks = 4;
constexpr std::uint32_t kInputs = kLength * kBlocks;
constexpr std::uint32_t kUsers = 8;

// Users with samples on some blocks, a group of some of the users, and a plain sum of the samples
// to compare with.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : rng_(seed, Stream::kTest) {}

  LinearUsers users{kUsers, kInputs, kLambda};
  LinearGroup group{users};
  std::set<std::uint32_t> members;  // rows
  std::map<std::uint32_t, PlainState> samples;

  void add_sample() {
    const UserId user{static_cast<std::uint32_t>(rng_.below(kUsers))};
    // Users prefer blocks, so that all numbers of holders come up.
    const std::uint32_t block = rng_.chance(0.7) ? static_cast<std::uint32_t>(user) % kBlocks
                                                 : static_cast<std::uint32_t>(rng_.below(kBlocks));
    const std::vector<float> x = cases::draw_unit(rng_, kLength);
    const Features features{x, block * kLength};
    const double reward = rng_.normal();
    const auto [row, number] = users.add(user, features, reward);
    samples.try_emplace(row, kInputs).first->second.add(features, reward);
    if (members.count(row) > 0) {
      group.add(row, number, x, reward);
    }
  }

  // Some users join and some leave.
  void change_members() {
    std::vector<std::uint32_t> come;
    std::vector<std::uint32_t> go;
    for (std::uint32_t row = 0; row < users.known_count(); ++row) {
      if (rng_.chance(0.2)) {
        (members.count(row) > 0 ? go : come).push_back(row);
      }
    }
    for (const std::uint32_t row : go) {
      members.erase(row);
    }
    group.leave(go, [&] {
      ++rebuilt;
      return std::vector<std::uint32_t>(members.begin(), members.end());
    });
    group.join(come);
    members.insert(come.begin(), come.end());
  }
  int rebuilt = 0;

  PlainState sum() const {
    PlainState sum(kInputs);
    for (const std::uint32_t row : members) {
      sum.add(samples.at(row));
    }
    return sum;
  }

  void expect_right() const {
    const PlainState expected = sum();
    const Eigen::MatrixXd matrix = expected.ridge(kLambda);
    const Eigen::VectorXd weights = expected.weights(kLambda);
    ASSERT_EQ(group.sample_count(), expected.samples);
    std::set<std::uint32_t> met;
    for (std::size_t position = 0; position < group.block_count(); ++position) {
      const RidgeState& ridge = group.ridge(position);
      EXPECT_EQ(group.find(group.block(position)), &ridge);
      met.insert(group.block(position));
    }
    for (std::uint32_t offset = 0; offset < kInputs; offset += kLength) {
      const std::vector<float> any(kLength);
      const std::optional<std::uint32_t> block = users.blocks().find({any, offset});
      const RidgeState* ridge = block ? group.find(*block) : nullptr;
      const Eigen::VectorXd expected_weights = weights.segment(offset, kLength);
      ASSERT_EQ(ridge != nullptr, block && met.count(*block) > 0);
      if (ridge == nullptr) {
        ASSERT_EQ(expected_weights.norm(), 0.0);
        continue;
      }
      ASSERT_LT((ridge->weights() - expected_weights).norm(), 1e-9);
      const Eigen::MatrixXd inverse = matrix.block(offset, offset, kLength, kLength).inverse();
      ASSERT_LT((ridge->inverse() - inverse).norm(), 1e-9);
    }
  }

 private:
  Rng rng_;
};

std::string saved(const LinearGroup& group) {
  std::ostringstream out;
  StateWriter writer(out, "state", {.kind = "test"});
  group.save(writer);
  writer.finish();
  return out.str();
}

void load(LinearGroup& group, const std::string& state, std::span<const std::uint32_t> rows) {
  std::istringstream in(state);
  StateReader reader(in, "state", {.kind = "test"});
  group.load(reader, rows);
  reader.finish();
}

TEST(LinearGroup, IsTheSumOfItsMembersHoweverTheyComeAndGo) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Scene scene(seed);
    for (int step = 0; step < 600; ++step) {
      scene.add_sample();
      if (step % 3 == 0) {
        scene.change_members();
      }
      scene.expect_right();
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
    EXPECT_GT(scene.rebuilt, 5);
  }
}

TEST(LinearGroup, IsMergedAnewOnlyWhereLessIsLeftThanWasGivenUp) {
  using Rows = std::vector<std::uint32_t>;
  LinearUsers users(6, kLength, kLambda);
  const std::vector<float> x = {1.0F, 0.5F, 0.0F};
  LinearGroup group(users);
  for (std::uint32_t user = 0; user < 6; ++user) {
    users.add(UserId{user}, {x}, 1.0);
  }
  const auto merges_anew = [&](const Rows& leaving, const Rows& staying) {
    bool asked = false;
    group.leave(leaving, [&] {
      asked = true;
      return staying;
    });
    return asked;
  };
  group.join(Rows{0, 1, 2, 3, 4, 5});
  EXPECT_FALSE(merges_anew({5}, {}));
  EXPECT_FALSE(merges_anew({4, 3}, {}));  // three given up, three left
  EXPECT_TRUE(merges_anew({2}, {0, 1}));
  group.join(Rows{2, 3, 4, 5});
  EXPECT_FALSE(merges_anew({5, 4, 3}, {}));  // merging anew has reset the count
  EXPECT_FALSE(merges_anew({2, 1}, {}));     // the group is the state of one user
  group.join(Rows{1, 2, 3, 4, 5});
  EXPECT_FALSE(merges_anew({5, 4, 3}, {}));
  for (int i = 0; i < 2; ++i) {
    users.add(UserId{0}, {x}, 1.0);
    group.add(0, 0, x, 1.0);
  }
  EXPECT_FALSE(merges_anew({2}, {}));  // four given up, four left
}

// The reason to merge anew: much data leaves, little stays, lambda is small.
TEST(LinearGroup, LosesNoDigitsWhenNearlyAllLeave) {
  constexpr std::uint32_t kMany = 400;
  constexpr double kSmallLambda = 1e-3;
  Rng rng(8, Stream::kTest);
  LinearUsers users(kMany, kLength, kSmallLambda);
  std::vector<std::uint32_t> staying;
  for (std::uint32_t user = 0; user < kMany; ++user) {
    for (std::size_t i = 0; i <= (user < 10 ? 300 : rng.below(3)); ++i) {
      users.add(UserId{user}, {cases::draw_unit(rng, kLength)}, rng.uniform());
    }
    staying.push_back(user);
  }
  LinearGroup group(users);
  group.join(staying);
  int merged = 0;
  for (std::uint32_t user = 0; user + 1 < kMany; ++user) {
    staying.erase(staying.begin());
    group.leave(std::span(&user, 1), [&] {
      ++merged;
      return staying;
    });
    LinearGroup fresh(users);
    fresh.join(staying);
    const std::vector<float> x = cases::draw_unit(rng, kLength);
    const RidgePrediction said = group.predict({x});
    const RidgePrediction expected = fresh.predict({x});
    ASSERT_NEAR(said.estimate, expected.estimate, 1e-9) << user;
    ASSERT_NEAR(said.uncertainty, expected.uncertainty, 1e-9 * expected.uncertainty) << user;
  }
  EXPECT_GT(merged, 1);
  EXPECT_LT(merged, 25) << "merging anew is rare";
}

TEST(LinearGroup, GoesOnBitForBitAfterALoad) {
  Scene scene(9);
  for (int step = 0; step < 200; ++step) {
    scene.add_sample();
    scene.change_members();
    LinearGroup copy(scene.users);
    load(copy, saved(scene.group), std::vector(scene.members.begin(), scene.members.end()));
    ASSERT_TRUE(saved(copy) == saved(scene.group));
    ASSERT_EQ(copy.sample_count(), scene.group.sample_count());
    ASSERT_EQ(copy.block_count(), scene.group.block_count());
    scene.group = copy;  // the sum stays right with what was loaded
    scene.expect_right();
  }
}

TEST(LinearGroup, RefersToTheOnlyMemberThatHasABlock) {
  LinearUsers users(3, 2 * kLength, kLambda);
  const std::vector<float> x = {1.0F, 0.5F, 0.0F};
  LinearGroup group(users);
  const std::uint32_t first = users.add(UserId{0}, {x, 0}, 1.0).block;
  const std::uint32_t second = users.add(UserId{1}, {x, kLength}, 2.0).block;
  group.join(std::vector<std::uint32_t>{0, 1});
  const std::size_t empty = group.memory_bytes();
  EXPECT_EQ(group.find(first), users.state(0).find(first));
  EXPECT_EQ(group.find(second), users.state(1).find(second));
  users.add(UserId{1}, {x, 0}, 3.0);
  group.add(1, first, x, 3.0);
  EXPECT_NE(group.find(first), users.state(0).find(first));
  EXPECT_EQ(group.find(first)->sample_count(), 2U);
  EXPECT_EQ(users.state(0).find(first)->sample_count(), 1U);
  EXPECT_GT(group.memory_bytes(), empty);
  group.leave(std::vector<std::uint32_t>{0}, [] { return std::vector<std::uint32_t>{1}; });
  EXPECT_EQ(group.find(first), users.state(1).find(first));
  EXPECT_EQ(group.sample_count(), 2U);
  EXPECT_EQ(group.memory_bytes(), empty);
}

TEST(LinearGroup, RefusesStatesThatNoneCouldHaveSaved) {
  LinearUsers users(2, kLength, kLambda);
  const std::vector<float> x = {1.0F, 0.5F, 0.0F};
  users.add(UserId{0}, {x}, 1.0);
  users.add(UserId{1}, {x}, 1.0);
  const std::vector<std::uint32_t> rows = {0, 1};
  const auto load_with = [&](std::uint64_t removed, const RidgeState& ridge) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    writer.write(removed);
    ridge.save(writer);
    writer.finish();
    LinearGroup group(users);
    load(group, out.str(), rows);
  };
  const auto refused = [&](std::uint64_t removed, const RidgeState& ridge) {
    expect_error(ErrorKind::kCorrupt, "a group's state is not that of its members",
                 [&] { load_with(removed, ridge); });
  };
  const auto ridge_of = [](std::size_t length, double lambda, int samples) {
    RidgeState ridge(length, lambda);
    for (int i = 0; i < samples; ++i) {
      ridge.add(std::vector<float>(length, 0.5F), 1.0);
    }
    return ridge;
  };
  load_with(0, ridge_of(kLength, kLambda, 2));
  refused(~std::uint64_t{0}, ridge_of(kLength, kLambda, 2));
  refused(0, ridge_of(kLength, kLambda, 3));
  refused(0, ridge_of(kLength + 1, kLambda, 2));
  refused(0, ridge_of(kLength, 2.0 * kLambda, 2));
}

}  // namespace
}  // namespace mcnb::linear_group_test
