#include "mcnb/environment/classification.h"

#include <algorithm>
#include <map>

#include "mcnb/bandit/policies.h"
#include "tests/data/rating_cases.h"

namespace mcnb::classification_test {
namespace {

// `count` samples of `dimension` numbers; sample k has class k % classes, or 0 if that is `unused`.
Samples make_samples(std::size_t count, std::size_t dimension, std::size_t classes,
                     std::uint64_t seed, std::size_t unused = ~std::size_t{0}) {
  Rng rng(seed, Stream::kTest);
  Samples samples;
  samples.dimension = dimension;
  for (std::size_t i = 0; i < count * dimension; ++i) {
    samples.values.push_back(static_cast<float>(rng.below(256)));
  }
  for (std::size_t i = 0; i < classes; ++i) {
    samples.class_names.push_back(std::to_string(i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label = i % classes;
    samples.labels.push_back(static_cast<std::uint16_t>(label == unused ? 0 : label));
  }
  return samples;
}

std::shared_ptr<const ClassificationData> make_data(std::size_t count, std::size_t dimension,
                                                    std::size_t classes, std::uint64_t seed,
                                                    std::size_t unused = ~std::size_t{0}) {
  return std::make_shared<const ClassificationData>(
      prepare_classification(make_samples(count, dimension, classes, seed, unused)));
}

ArmIndex arm_at(std::size_t i) { return ArmIndex{static_cast<std::uint32_t>(i)}; }

// The index of the sample that an arm shows.
std::size_t sample_of(const ClassificationData& data, const Features& features) {
  const auto offset = features.values.data() - data.samples.values.data();
  EXPECT_EQ(offset % static_cast<std::ptrdiff_t>(data.samples.dimension), 0);
  return static_cast<std::size_t>(offset) / data.samples.dimension;
}

bool shows(const ClassificationData& data, const Features& features) {
  const float* begin = data.samples.values.data();
  return std::greater_equal<>()(features.values.data(), begin) &&
         std::less<>()(features.values.data(), begin + data.samples.values.size());
}

TEST(ClassificationData, SamplesAreBroughtToUnitLengthAndZerosLeftOut) {
  Samples samples = make_samples(20, 5, 4, 1);
  std::fill_n(samples.values.begin() + 15, 5, 0.0F);
  std::fill_n(samples.values.begin() + 95, 5, 0.0F);
  samples.values[50] = 3e38F;
  std::fill_n(samples.values.begin() + 60, 5, 0.0F);
  samples.values[60] = -1e-40F;
  const ClassificationData data = prepare_classification(samples);
  EXPECT_EQ(data.zeros_left_out, 2U);
  ASSERT_EQ(data.samples.size(), 18U);
  std::size_t kept = 0;
  for (std::size_t k = 0; k < 20; ++k) {
    if (k == 3 || k == 19) {
      continue;
    }
    EXPECT_EQ(data.samples.labels[kept], samples.labels[k]);
    EXPECT_NEAR(length(data.samples.row(kept)), 1.0, 1e-6);
    const double whole = length(samples.row(k));
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(data.samples.row(kept)[j], static_cast<double>(samples.row(k)[j]) / whole, 1e-6);
    }
    ++kept;
  }
  EXPECT_EQ(describe(data),
            "18 samples of 5 numbers in 4 classes; left out: 2 that are zero "
            "throughout");
  Samples zeros = samples;
  std::ranges::fill(zeros.values, 0.0F);
  expect_error(ErrorKind::kInput, "no samples", [&] { prepare_classification(zeros); });
}

TEST(ClassificationWorld, EveryClassIsAnArmWithTheSampleInItsBlock) {
  for (const std::size_t classes : {2, 7, 26}) {
    const auto data = make_data(60, 9, classes, 2);
    ClassificationWorld world({data}, {}, 3);
    EXPECT_EQ(world.user_count(), classes);
    EXPECT_EQ(world.inputs(), classes * 9);
    EXPECT_TRUE(world.user_features().empty());
    for (std::size_t t = 0; t < 100; ++t) {
      const Round& round = world.next_round();
      ASSERT_EQ(index(round.id), t);
      ASSERT_EQ(round.arms.size(), classes);
      const std::size_t sample = sample_of(*data, round.arms[0].features);
      for (std::size_t i = 0; i < classes; ++i) {
        const Arm& arm = round.arms[i];
        EXPECT_EQ(index(arm.index), i);
        EXPECT_EQ(index(arm.user), i);
        EXPECT_EQ(arm.item, kNoItem);
        EXPECT_EQ(arm.features.offset, i * 9);
        EXPECT_EQ(arm.features.values.data(), data->samples.row(sample).data());
        EXPECT_EQ(arm.features.values.size(), 9U);
        const float expected = data->samples.labels[sample] == i ? 1.0F : 0.0F;
        EXPECT_EQ(world.reward(arm.index), expected);
        EXPECT_EQ(world.expected_reward(arm.index), static_cast<double>(expected));
      }
    }
  }
}

TEST(ClassificationWorld, SamplesAreDrawnUniformlyAndTheSameForTheSameSeed) {
  const auto data = make_data(50, 4, 5, 4);
  ClassificationWorld one({data}, {}, 3);
  ClassificationWorld two({data}, {}, 3);
  ClassificationWorld other({data}, {}, 4);
  std::map<std::size_t, int> times;
  int same = 0;
  constexpr int kRounds = 20'000;
  for (int t = 0; t < kRounds; ++t) {
    const std::size_t sample = sample_of(*data, one.next_round().arms[0].features);
    EXPECT_EQ(sample_of(*data, two.next_round().arms[0].features), sample);
    same += sample_of(*data, other.next_round().arms[0].features) == sample ? 1 : 0;
    ++times[sample];
  }
  EXPECT_EQ(times.size(), 50U);
  for (const auto& [sample, count] : times) {
    EXPECT_NEAR(count, kRounds / 50.0, 5 * std::sqrt(kRounds / 50.0));
  }
  EXPECT_NEAR(same, kRounds / 50.0, 5 * std::sqrt(kRounds / 50.0));
}

TEST(ClassificationWorld, WithTheLabelAsUserAllArmsBelongToIt) {
  const auto data = make_data(60, 4, 5, 5);
  ClassificationWorld arms({data}, {}, 3);
  ClassificationWorld labels({data}, {.user = ArmUser::kLabel}, 3);
  for (std::size_t t = 0; t < 100; ++t) {
    const Round& first = arms.next_round();
    const Round& second = labels.next_round();
    const std::size_t sample = sample_of(*data, second.arms[0].features);
    EXPECT_EQ(sample_of(*data, first.arms[0].features), sample);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(index(second.arms[i].user), data->samples.labels[sample]);
      EXPECT_EQ(second.arms[i].features.offset, i * 4);
      EXPECT_EQ(labels.reward(arm_at(i)), arms.reward(arm_at(i)));
    }
  }
}

TEST(ClassificationWorld, TwoSetsTakeTurnsAtRandomWithUsersOfTheirOwn) {
  const std::vector sets = {make_data(40, 4, 10, 6), make_data(400, 4, 10, 7)};
  for (const ArmUser user : {ArmUser::kArm, ArmUser::kLabel}) {
    ClassificationWorld world(sets, {.user = user}, 3);
    EXPECT_EQ(world.user_count(), 20U);
    EXPECT_EQ(world.inputs(), 40U);
    int second = 0;
    constexpr int kRounds = 4000;
    for (int t = 0; t < kRounds; ++t) {
      const Round& round = world.next_round();
      const std::size_t set = shows(*sets[0], round.arms[0].features) ? 0 : 1;
      ASSERT_TRUE(shows(*sets[set], round.arms[0].features));
      const std::size_t sample = sample_of(*sets[set], round.arms[0].features);
      const std::size_t label = sets[set]->samples.labels[sample];
      second += set == 1 ? 1 : 0;
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(index(round.arms[i].user), 10 * set + (user == ArmUser::kArm ? i : label));
        EXPECT_EQ(round.arms[i].features.offset, 4 * i);
        EXPECT_EQ(world.reward(arm_at(i)), label == i ? 1.0F : 0.0F);
      }
    }
    EXPECT_NEAR(second, kRounds / 2.0, 5 * std::sqrt(kRounds / 4.0));
    ASSERT_EQ(world.start_data().size(), 20U);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(index(world.start_data()[i].user), i);
      EXPECT_TRUE(shows(*sets[i / 10], world.start_data()[i].sample.features));
    }
  }
}

TEST(ClassificationWorld, StartDataAreOneSampleAsTheClassOfItsUser) {
  const auto data = make_data(60, 4, 5, 8, 3);
  int rewards = 0;
  constexpr int kSeeds = 2000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ClassificationWorld world({data}, {}, seed);
    for (std::size_t user = 0; user < 5; ++user) {
      const Sample& datum = world.start_data()[user].sample;
      EXPECT_EQ(datum.features.offset, 4 * user);
      const std::size_t label = data->samples.labels[sample_of(*data, datum.features)];
      EXPECT_EQ(datum.reward, label == user ? 1.0F : 0.0F);
    }
    rewards += world.start_data()[1].sample.reward > 0 ? 1 : 0;
  }
  EXPECT_NEAR(rewards, kSeeds / 5.0, 5 * std::sqrt(kSeeds / 5.0));
}

TEST(ClassificationWorld, WithTheLabelAsUserStartDataAreItsSamplesAsAnyClass) {
  const auto data = make_data(60, 4, 5, 8, 3);  // class 3 has no samples
  std::map<std::uint32_t, int> blocks;
  constexpr int kSeeds = 2000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ClassificationWorld world({data}, {.user = ArmUser::kLabel}, seed);
    for (std::size_t user = 0; user < 5; ++user) {
      const Sample& datum = world.start_data()[user].sample;
      const std::size_t label = data->samples.labels[sample_of(*data, datum.features)];
      EXPECT_EQ(datum.reward, label * 4 == datum.features.offset ? 1.0F : 0.0F);
      EXPECT_TRUE(label == user || (user == 3 && datum.reward == 0.0F));
    }
    ++blocks[world.start_data()[2].sample.features.offset];
  }
  EXPECT_EQ(blocks.size(), 5U);
  for (const auto& [offset, count] : blocks) {
    EXPECT_NEAR(count, kSeeds / 5.0, 5 * std::sqrt(kSeeds / 5.0)) << offset;
  }
}

TEST(ClassificationWorld, PoliciesLearnInIt) {
  Samples samples = make_samples(60, 5, 5, 9);
  for (std::size_t i = 0; i < samples.labels.size(); ++i) {
    samples.values[i * 5 + samples.labels[i]] += 1000.0F;  // this feature tells the class
  }
  const auto data = std::make_shared<const ClassificationData>(prepare_classification(samples));
  ThreadPool threads(1);
  for (const char* name : {"linucb", "mcnb", "neuucb-one"}) {
    ClassificationWorld world({data}, {}, 3);
    const std::unique_ptr<Policy> policy = make_policy(
        parse_policy(name),
        {.inputs = world.inputs(), .users = world.user_count(), .seed = 1, .threads = &threads});
    for (const StartDatum& datum : world.start_data()) {
      policy->start(datum.user, datum.sample);
    }
    float rewards = 0.0F;  // of the last 100 rounds of 200
    for (int t = 0; t < 200; ++t) {
      const Round& round = world.next_round();
      const ArmIndex arm = policy->choose(round);
      const float reward = world.reward(arm);
      policy->learn(round.id, round.arms[index(arm)], reward);
      rewards += t < 100 ? 0.0F : reward;
    }
    EXPECT_GT(rewards, 60.0F) << name << ": chance gives 20";
  }
}

TEST(ClassificationWorld, RefusesSetsThatDoNotGoTogether) {
  const auto make = [](std::vector<std::shared_ptr<const ClassificationData>> sets) {
    ClassificationWorld(std::move(sets), {}, 1);
  };
  const auto data = make_data(20, 4, 5, 1);
  expect_error(ErrorKind::kUsage, "found 5 and 3", [&] { make({data, make_data(20, 3, 5, 1)}); });
  expect_error(ErrorKind::kUsage, "found 6 and 4", [&] { make({data, make_data(20, 4, 6, 1)}); });
  expect_error(ErrorKind::kUsage, "expected 2 to 10000 classes, found 1",
               [&] { make({make_data(20, 4, 1, 1)}); });
}

}  // namespace
}  // namespace mcnb::classification_test
