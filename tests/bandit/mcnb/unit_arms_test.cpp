// The option `normalise` of M-CNB: arms of unit length wherever the policy sees features.
#include "mcnb/bandit/mcnb/unit_arms.h"

#include <gtest/gtest.h>

#include "tests/bandit/mcnb_cases.h"

namespace mcnb::unit_arms_test {
namespace {

using cases::OwnRound;
using cases::saved;
using cases::with;
using cases::World;

double length_of(std::span<const float> values) {
  long double squares = 0.0L;
  for (const float value : values) {
    squares += static_cast<long double>(value) * value;
  }
  return static_cast<double>(std::sqrt(squares));
}

std::vector<float> times(std::span<const float> x, double factor) {
  std::vector<float> scaled;
  for (const float value : x) {
    scaled.push_back(static_cast<float>(value * factor));
  }
  return scaled;
}

std::vector<float> unit_of(const std::vector<float>& x) {
  const double length = length_of(x);
  return length == 0.0 ? x : times(x, 1.0 / length);
}

TEST(UnitArms, HaveLengthOneAndTheDirectionTheyHad) {
  Rng rng(1, Stream::kTest);
  UnitArms arms;
  for (const double length : {1e-37, 1e-30, 1e-6, 1e-3, 0.5, 1.0002, 7.0, 1e6, 1e30, 1e38}) {
    for (const std::size_t count : {1U, 3U, 64U}) {
      const std::vector<float> unit = cases::draw_unit(rng, count);
      const std::vector<float> x = times(unit, length);
      const Features scaled = arms.scaled({x, 5});
      EXPECT_EQ(scaled.offset, 5U);
      EXPECT_NEAR(length_of(scaled.values), 1.0, 1e-6) << length;
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_NEAR(scaled.values[i], unit[i], 1e-6) << length;
      }
    }
  }
}

TEST(UnitArms, KeepTheBitsOfArmsThatHaveUnitLengthAndOfZeros) {
  Rng rng(2, Stream::kTest);
  UnitArms arms;
  for (const double length : {1.0, 1.0 + 8e-6, 1.0 - 8e-6, 0.0}) {
    const std::vector<float> x = times(cases::draw_unit(rng, 9), length);
    EXPECT_EQ(arms.scaled({x, 0}).values.data(), x.data()) << length;
  }
  const std::vector<float> x = times(cases::draw_unit(rng, 9), 1.0 + 2e-5);
  const Features once = arms.scaled({x, 0});
  EXPECT_NE(once.values.data(), x.data());
  EXPECT_EQ(arms.scaled(once).values.data(), once.values.data()) << "scaling twice changes nothing";
}

TEST(UnitArms, KeepAllResultsUntilTheyAreCleared) {
  Rng rng(3, Stream::kTest);
  UnitArms arms;
  std::vector<std::vector<float>> expected;
  std::vector<Features> found;
  for (std::size_t i = 0; i < 100; ++i) {
    const std::vector<float> x = times(cases::draw_unit(rng, 4), 3.0);
    found.push_back(arms.scaled({x, 0}));
    expected.emplace_back(found.back().values.begin(), found.back().values.end());
  }
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(std::ranges::equal(found[i].values, expected[i])) << i;
  }
}

// The same round with features `change(x, arm's number)`.
template <class Change>
OwnRound changed(const OwnRound& from, Change change) {
  OwnRound own = from;
  for (std::size_t i = 0; i < own.features.size(); ++i) {
    own.features[i] = change(own.features[i], i);
    own.round.arms[i].features.values = own.features[i];
  }
  return own;
}

// Arms of all lengths, with zeros among them.
OwnRound stretched(const OwnRound& from) {
  Rng rng(index(from.round.id), Stream::kTest, 77);
  return changed(from, [&](const std::vector<float>& x, std::size_t) {
    return times(x, rng.chance(0.05) ? 0.0 : std::pow(10.0, rng.uniform() * 12.0 - 6.0));
  });
}

OwnRound unit(const OwnRound& from) {
  return changed(from, [](const std::vector<float>& x, std::size_t) { return unit_of(x); });
}

void expect_equal_scores(const std::vector<Score>& found, const std::vector<Score>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].value, expected[i].value);
    ASSERT_EQ(found[i].considered, expected[i].considered);
  }
}

// Plays `policy` on arms of all lengths and `expected`, which takes arms as they are, on the same
// arms brought to unit length before. Every third round both learn a batch.
void expect_the_same_of_all_lengths(const World& world, Policy& policy, Policy& expected) {
  const OwnRound start = stretched(cases::draw_start(world));
  const OwnRound unit_start = unit(start);
  for (std::size_t i = 0; i < start.round.arms.size(); ++i) {
    policy.start(start.round.arms[i].user, {start.round.arms[i].features, start.rewards[i]});
    expected.start(start.round.arms[i].user, {unit_start.round.arms[i].features, start.rewards[i]});
  }
  std::deque<OwnRound> rounds;
  std::deque<OwnRound> unit_rounds;
  std::vector<RewardedArm> batch;
  std::vector<RewardedArm> unit_batch;
  for (std::uint64_t id = 0; id < 60; ++id) {
    rounds.push_back(stretched(cases::draw_round(world, id)));
    unit_rounds.push_back(unit(rounds.back()));
    const OwnRound& own = rounds.back();
    const OwnRound& its_unit = unit_rounds.back();
    expect_equal_scores(policy.scores(own.round), expected.scores(its_unit.round));
    ASSERT_EQ(policy.cluster(own.round.arms[0]), expected.cluster(its_unit.round.arms[0]));
    const ArmIndex choice = policy.choose(own.round);
    ASSERT_EQ(index(choice), index(expected.choose(its_unit.round)));
    const float reward = own.rewards[index(choice)];
    if (id % 2 == 0) {
      policy.learn(own.round.id, own.arm(choice), reward);
      expected.learn(own.round.id, its_unit.arm(choice), reward);
    } else {
      batch.push_back({own.round.id, own.arm(choice), reward});
      unit_batch.push_back({own.round.id, its_unit.arm(choice), reward});
    }
    if (id % 6 == 5) {
      EXPECT_TRUE(policy.learn_all(batch).empty());
      EXPECT_TRUE(expected.learn_all(unit_batch).empty());
      batch.clear();
      unit_batch.clear();
    }
  }
  EXPECT_EQ(saved(policy), saved(expected)) << "networks and histories";
}

TEST(Normalise, TheWholePolicySeesArmsOfUnitLength) {
  for (const World& world : {World{}, World{.features = 3, .blocks = true}}) {
    for (const char* preset : {"algorithm", "default", "default-classification"}) {
      for (const std::uint64_t keep_arms : {0U, 2U}) {
        SCOPED_TRACE(preset);
        ThreadPool threads(2);
        const auto make = [&](Normalise normalise) {
          return Mcnb(with(mcnb_preset(preset),
                           [&](McnbOptions& o) {
                             o.network.width = 12;
                             o.user_steps = 20;
                             o.theta_steps = 20;
                             o.keep_arms = keep_arms;
                             o.normalise = normalise;
                           }),
                      cases::setup_of(world, threads));
        };
        Mcnb policy = make(Normalise::kUnit);
        Mcnb expected = make(Normalise::kNone);
        expect_the_same_of_all_lengths(world, policy, expected);
      }
    }
  }
}

TEST(Normalise, OnlyTheDefaultPresetsScaleArms) {
  EXPECT_EQ(mcnb_preset("default").normalise, Normalise::kUnit);
  EXPECT_EQ(mcnb_preset("default-classification").normalise, Normalise::kUnit);
  EXPECT_EQ(mcnb_preset("algorithm").normalise, Normalise::kNone);
  EXPECT_EQ(mcnb_preset("experiments").normalise, Normalise::kNone);
  EXPECT_EQ(parse_mcnb_options({{"normalise", "none"}}).normalise, Normalise::kNone);
  plain::expect_error(ErrorKind::kUsage, "option normalise: expected none | unit, got \"one\"", [] {
    parse_mcnb_options({{"normalise", "one"}});
  });
}

}  // namespace
}  // namespace mcnb::unit_arms_test
