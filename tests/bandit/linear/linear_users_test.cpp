#include "mcnb/bandit/linear/linear_users.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <map>
#include <sstream>

#include "tests/bandit/policy_cases.h"

namespace mcnb::linear_users_test {
namespace {

using plain::expect_error;

constexpr double kLambda = 0.3;
constexpr std::uint32_t kLength = 3;  // of a block
constexpr std::uint32_t kBlocks = 4;

// All samples of all users over the whole vector. Every query solves for the weights again.
class PlainUsers {
 public:
  struct Whole {
    Eigen::MatrixXd m = kLambda * Eigen::MatrixXd::Identity(kLength * kBlocks, kLength* kBlocks);
    Eigen::VectorXd b = Eigen::VectorXd::Zero(kLength * kBlocks);
    std::uint64_t samples = 0;

    Eigen::VectorXd weights() const { return m.colPivHouseholderQr().solve(b); }
  };

  static Eigen::VectorXd whole(const Features& features) {
    const std::vector<double> x = plain::dense({.inputs = kLength * kBlocks}, features);
    return Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  }

  void add(UserId user, const Features& features, double reward) {
    const Eigen::VectorXd x = whole(features);
    Whole& state = states_[user];
    state.m += x * x.transpose();
    state.b += reward * x;
    ++state.samples;
  }

  Whole of(const std::vector<UserId>& users) const {
    Whole sum;
    for (const UserId user : users) {
      const auto found = states_.find(user);
      if (found != states_.end()) {
        sum.m += found->second.m - kLambda * Eigen::MatrixXd::Identity(sum.m.rows(), sum.m.cols());
        sum.b += found->second.b;
        sum.samples += found->second.samples;
      }
    }
    return sum;
  }

 private:
  std::map<UserId, Whole> states_;
};

// Twelve users: some with samples on all blocks, some on one, the last three without any.
struct Fixture {
  LinearUsers users{12, kLength* kBlocks, kLambda};
  PlainUsers plain;

  explicit Fixture(std::uint64_t seed, int samples = 200, std::uint32_t blocks = kBlocks) {
    Rng rng(seed, Stream::kTest);
    for (int i = 0; i < samples; ++i) {
      const auto user = static_cast<std::uint32_t>(rng.below(9));
      const std::uint32_t block =
          (user < 4 ? static_cast<std::uint32_t>(rng.below(blocks)) : user % blocks);
      const std::vector<float> x = plain::draw(rng, kLength);
      const double reward = rng.uniform();
      users.add(UserId{user}, {x, block * kLength}, reward);
      plain.add(UserId{user}, {x, block * kLength}, reward);
    }
  }
};

void expect_matches(const LinearUsers& users, const LinearState* state,
                    const PlainUsers::Whole& expected, double tolerance) {
  Rng rng(99, Stream::kTest);
  EXPECT_EQ(state == nullptr ? 0 : state->sample_count(), expected.samples);
  const Eigen::MatrixXd inverse = expected.m.inverse();
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    const std::vector<float> x = plain::draw(rng, kLength);
    const Features features{x, block * kLength};
    const Eigen::VectorXd v = PlainUsers::whole(features);
    const RidgePrediction said = users.predict(state, features);
    EXPECT_NEAR(said.estimate, v.dot(inverse * expected.b), tolerance) << block;
    EXPECT_NEAR(said.uncertainty, std::sqrt(v.dot(inverse * v)), tolerance) << block;
  }
}

std::string save(const LinearUsers& users) {
  std::ostringstream out;
  StateWriter writer(out, "users", {.kind = "test"});
  users.save(writer);
  writer.finish();
  return out.str();
}

void load(LinearUsers& users, const std::string& bytes) {
  std::istringstream in(bytes);
  StateReader reader(in, "users", {.kind = "test"});
  users.load(reader);
  reader.finish();
}

TEST(LinearUsers, KeepWhatEachUserHasSeen) {
  const Fixture fixture(1);
  EXPECT_EQ(fixture.users.known_count(), 9U);
  for (std::uint32_t user = 0; user < 12; ++user) {
    const LinearState* state = fixture.users.find(UserId{user});
    EXPECT_EQ(state == nullptr, user >= 9);
    expect_matches(fixture.users, state, fixture.plain.of({UserId{user}}), 1e-11);
    EXPECT_EQ(fixture.users.sample_count(UserId{user}), fixture.plain.of({UserId{user}}).samples);
  }
}

TEST(LinearUsers, GiveRowsInTheOrderOfFirstSamples) {
  LinearUsers users(1'000'000, 2, 1.0);
  const std::vector<float> x = {1.0F, 0.0F};
  for (const std::uint32_t user : {999'999U, 5U, 999'999U, 7U}) {
    users.add(UserId{user}, {x, 0}, 1.0);
  }
  ASSERT_EQ(users.known_count(), 3U);
  EXPECT_EQ(users.user(0), UserId{999'999});
  EXPECT_EQ(users.user(1), UserId{5});
  EXPECT_EQ(users.user(2), UserId{7});
  EXPECT_EQ(users.row(UserId{7}), 2U);
  EXPECT_FALSE(users.row(UserId{6}).has_value());
  EXPECT_EQ(users.state(0).sample_count(), 2U);
  EXPECT_LT(users.memory_bytes(), 150'000U) << "users without samples cost about a bit each";
}

TEST(LinearUsers, DistancesAreThoseOfTheWholeWeights) {
  for (const std::uint32_t blocks : {1U, kBlocks}) {
    const Fixture fixture(2, 200, blocks);
    std::vector<double> squares;
    for (std::uint32_t a = 0; a < 12; ++a) {
      const Eigen::VectorXd own = fixture.plain.of({UserId{a}}).weights();
      for (std::uint32_t b = 0; b < 12; ++b) {
        const double expected = (own - fixture.plain.of({UserId{b}}).weights()).norm();
        EXPECT_NEAR(fixture.users.distance(UserId{a}, UserId{b}), expected, 1e-11);
      }
      if (const LinearState* state = fixture.users.find(UserId{a})) {
        const std::uint32_t own_row = *fixture.users.row(UserId{a});
        fixture.users.squared_distances(*state, squares);
        ASSERT_EQ(squares.size(), fixture.users.known_count());
        for (std::uint32_t row = 0; row < squares.size(); ++row) {
          EXPECT_EQ(fixture.users.squared_distance(own_row, row), squares[row]);
          const UserId other = fixture.users.user(row);
          EXPECT_EQ(std::sqrt(squares[row]), fixture.users.distance(UserId{a}, other));
        }
      }
    }
  }
}

TEST(LinearUsers, DistancesFollowEverySample) {
  Fixture fixture(3);
  const std::vector<float> x = {0.0F, 1.0F, 0.0F};
  std::vector<double> before;
  std::vector<double> after;
  fixture.users.squared_distances(*fixture.users.find(UserId{1}), before);
  fixture.users.add(UserId{2}, {x, 3}, 100.0);
  fixture.users.squared_distances(*fixture.users.find(UserId{1}), after);
  for (std::uint32_t row = 0; row < before.size(); ++row) {
    EXPECT_EQ(before[row] == after[row], fixture.users.user(row) != UserId{2});
  }
}

TEST(UserRows, KnowTheEndsOfTheUnknown) {
  Rng rng(20, Stream::kTest);
  UserRows users(10);
  std::vector<bool> known(10, false);
  for (int i = 0; i < 200; ++i) {
    if (rng.chance(0.1)) {
      users.add_users(2);
      known.resize(known.size() + 2, false);
    }
    const auto user = static_cast<std::uint32_t>(rng.below(known.size()));
    users.meet(UserId{user});
    known[user] = true;
    std::vector<std::uint32_t> unknown;
    for (std::uint32_t other = 0; other < known.size(); ++other) {
      if (!known[other]) {
        unknown.push_back(other);
      }
    }
    ASSERT_EQ(users.lowest_unknown().has_value(), !unknown.empty());
    ASSERT_EQ(users.highest_unknown().has_value(), !unknown.empty());
    if (!unknown.empty()) {
      ASSERT_EQ(*users.lowest_unknown(), UserId{unknown.front()});
      ASSERT_EQ(*users.highest_unknown(), UserId{unknown.back()});
    }
  }
}

TEST(LinearUsers, LoadWhatWasSavedAndGoOnAlike) {
  Fixture fixture(9);
  fixture.users.add_users(3);
  LinearUsers loaded(12, kLength * kBlocks, kLambda);
  load(loaded, save(fixture.users));
  EXPECT_EQ(loaded.count(), 15U);
  EXPECT_TRUE(save(loaded) == save(fixture.users));
  Rng rng(10, Stream::kTest);
  std::vector<double> squares;
  std::vector<double> loaded_squares;
  for (int i = 0; i < 50; ++i) {
    const auto user = UserId{static_cast<std::uint32_t>(rng.below(15))};
    const auto offset = static_cast<std::uint32_t>(rng.below(kBlocks)) * kLength;
    const std::vector<float> x = plain::draw(rng, kLength);
    const LinearUsers::Added there = fixture.users.add(user, {x, offset}, 0.5);
    const LinearUsers::Added here = loaded.add(user, {x, offset}, 0.5);
    EXPECT_EQ(there.row, here.row);
    EXPECT_EQ(there.block, here.block);
    fixture.users.squared_distances(*fixture.users.find(user), squares);
    loaded.squared_distances(*loaded.find(user), loaded_squares);
    ASSERT_TRUE(cases::same_bits(squares, loaded_squares));
  }
  EXPECT_TRUE(save(loaded) == save(fixture.users));
}

TEST(LinearUsers, StatesThatNobodyWouldHaveSavedAreRefused) {
  const std::vector<float> x = {1.0F, 0.0F};
  struct Saved {
    std::vector<std::uint32_t> known = {3, 1};
    std::uint32_t second_block = 1;
    std::uint32_t length = 2;
    double lambda = kLambda;
    bool empty = false;
  };
  const auto load_saved = [&](const Saved& saved) {
    std::ostringstream out;
    StateWriter writer(out, "users", {.kind = "test"});
    writer.write(std::uint64_t{4});  // users
    writer.write_all(saved.known);
    writer.write(std::uint64_t{2});  // blocks
    for (const std::uint32_t offset : {0U, 2U}) {
      writer.write(offset);
      writer.write(std::uint32_t{2});
    }
    for (std::size_t i = 0; i < saved.known.size(); ++i) {
      writer.write(std::uint64_t{2});
      for (const std::uint32_t block : {0U, saved.second_block}) {
        writer.write(block);
        RidgeState state(saved.length, saved.lambda);
        if (!saved.empty) {
          state.add(std::vector<float>(saved.length, 1.0F), 1.0);
        }
        state.save(writer);
      }
    }
    writer.finish();
    LinearUsers users(4, 4, kLambda);
    load(users, out.str());
    return users.known_count();
  };
  EXPECT_EQ(load_saved({}), 2U);
  const auto refused = [&](const std::string& words, const Saved& saved) {
    expect_error(ErrorKind::kCorrupt, words, [&] { load_saved(saved); });
  };
  refused("belongs to a user that", {.known = {3, 4}});
  refused("belongs to a user that", {.known = {3, 3}});
  refused("longer than it can be", {.known = {0, 1, 2, 3, 0}});
  refused("not in their order", {.second_block = 0});
  refused("not in their order", {.second_block = 2});
  refused("does not fit its block", {.length = 1});
  refused("does not fit its block", {.lambda = 1.0});
  refused("impossible number of samples", {.empty = true});
}

TEST(LinearState, WidthsAndScalesAreThoseOfTheFormulas) {
  EXPECT_EQ(confidence_width(0), 1.0);
  for (const std::uint64_t samples : {1U, 5U, 1000U}) {
    const double t = static_cast<double>(samples);
    EXPECT_NEAR(confidence_width(samples), std::sqrt((1.0 + std::log(1.0 + t)) / (1.0 + t)), 1e-15);
    EXPECT_NEAR(exploration_scale(0.5, samples), 0.5 * std::sqrt(std::log(2.0 + t)), 1e-15);
  }
  EXPECT_NEAR(exploration_scale(1.0, 0), std::sqrt(std::log(2.0)), 1e-15);
  const std::vector<float> x = {3.0F, 4.0F};
  EXPECT_EQ(predict(nullptr, x, 4.0).uncertainty, 2.5);
  EXPECT_EQ(predict(nullptr, x, 4.0).estimate, 0.0);
}

}  // namespace
}  // namespace mcnb::linear_users_test
