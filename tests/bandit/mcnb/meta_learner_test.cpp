#include "mcnb/bandit/mcnb/meta_learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "tests/numeric/plain_network.h"

namespace mcnb::meta_learner_test {
namespace {

using plain::OwnFeatures;
using plain::PlainNetwork;

constexpr double kRate = 0.004;  // no step needs damping
const UserId kUser{0};

// A meta-learner that has moved away from its start, stored events, and a copy in double precision.
class Case {
 public:
  Case(const NetworkShape& shape, std::uint64_t seed)
      : shape_(shape),
        rng_(seed, Stream::kTest),
        start_(shape, plain::draw_network(rng_, shape)),
        meta(shape, {start_.parameters().begin(), start_.parameters().end()}),
        histories(seed, 0) {
    histories.add_users(1);
    for (float& weight : meta.parameters()) {
      weight += static_cast<float>(0.02 * rng_.normal());
    }
  }

  PlainNetwork plain() const { return {shape_, meta.parameters()}; }

  // A block at any offset, or all inputs.
  OwnFeatures draw_features() {
    const auto inputs = static_cast<std::uint64_t>(shape_.inputs);
    const std::uint64_t count = rng_.chance(0.3) ? inputs : 1 + rng_.below(inputs);
    return plain::draw_clear_features(rng_, plain(), static_cast<std::size_t>(count),
                                      static_cast<std::uint32_t>(rng_.below(inputs - count + 1)),
                                      1e-4);
  }

  // A block of this length at any offset.
  OwnFeatures draw_block(std::uint32_t count) {
    return plain::draw_clear_features(
        rng_, plain(), count, static_cast<std::uint32_t>(rng_.below(shape_.inputs - count + 1)),
        1e-4);
  }

  std::span<const float> meta_parameters() const { return meta.parameters(); }

  std::vector<Draw> draw_events(std::size_t count) {
    std::vector<Draw> draws;
    double sum = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      const OwnFeatures x = draw_features();
      histories.add({&kUser, 1}, {x.view(), static_cast<float>(rng_.uniform())});
      const double weight = 0.2 + rng_.uniform();
      draws.push_back(
          {histories.event(kUser, histories.size(kUser) - 1), static_cast<float>(weight)});
      sum += weight;
    }
    for (Draw& draw : draws) {
      draw.weight = static_cast<float>(draw.weight / sum);
    }
    return draws;
  }

  // Of Theta.
  double mean_loss(std::span<const Draw> draws) const {
    double loss = 0.0;
    for (const Draw& draw : draws) {
      const Sample sample = histories.sample(draw.event);
      loss += draw.weight * std::pow(plain().value(sample.features) - sample.reward, 2) / 2.0;
    }
    return loss;
  }

  // One step down the gradient of the mean loss, with explicit vectors.
  void step(PlainNetwork& network, std::span<const Draw> draws) const {
    std::vector<double> sum(network.parameters().size(), 0.0);
    for (const Draw& draw : draws) {
      const Sample sample = histories.sample(draw.event);
      const double error = network.value(sample.features) - sample.reward;
      const std::vector<double> gradient = network.gradient(sample.features);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += draw.weight * error * gradient[i];
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      network.parameters()[i] -= kRate * sum[i];
    }
  }

  double gradient_move(const PlainNetwork& network, const Features& x) const {
    return plain::distance(network.gradient(x), start_.gradient(x));
  }

 private:
  NetworkShape shape_;
  Rng rng_;
  PlainNetwork start_;

 public:
  MetaLearner meta;
  Histories histories;
};

void expect_adapts_as_the_textbook(Case& test, std::span<const std::vector<Draw>> steps,
                                   MetaScratch& scratch) {
  PlainNetwork expected = test.plain();
  for (const std::vector<Draw>& draws : steps) {
    test.step(expected, draws);
  }
  const std::vector<float> before(test.meta.parameters().begin(), test.meta.parameters().end());
  for (int i = 0; i < 4; ++i) {
    OwnFeatures x = test.draw_features();
    while (expected.margin(x.view()) < 1e-4) {
      x = test.draw_features();
    }
    const AdaptedMeta adapted =
        test.meta.adapted_at(x.view(), steps, test.histories, kRate, scratch);
    const double size = 1.0 + expected.magnitude(x.view());
    EXPECT_NEAR(adapted.estimate, expected.value(x.view()), 1e-5 * size);
    EXPECT_NEAR(adapted.gradient_move, test.gradient_move(expected, x.view()), 2e-5 * size);
  }
  EXPECT_TRUE(plain::same_bits(before, test.meta.parameters()));  // adapted_at changes nothing
  EXPECT_TRUE(test.meta.adapt(test.histories.sample(steps[0][0].event).features, steps,
                              test.histories, kRate, scratch));
  const std::vector<double> moved(test.meta.parameters().begin(), test.meta.parameters().end());
  EXPECT_LT(plain::distance(moved, expected.parameters()),
            1e-5 * (1.0 + plain::norm(expected.parameters())));
}

void expect_adapts_as_the_textbook(Bookkeeping bookkeeping) {
  MetaScratch scratch;  // one for all shapes and counts: what is left in it must not matter
  std::uint64_t seed = 0;
  for (const NetworkShape& shape : plain::some_shapes(7)) {
    if (shape.depth == 4 && shape.width == 1) {
      continue;  // nearly always dead
    }
    for (const std::size_t draws : {1U, 3U, 40U}) {
      for (const std::size_t steps : {1U, 3U}) {
        SCOPED_TRACE(plain::describe(shape) + ", draws " + std::to_string(draws) + ", steps " +
                     std::to_string(steps));
        Case test(shape, ++seed);
        test.meta.set_bookkeeping(bookkeeping);
        std::vector<std::vector<Draw>> all;
        for (std::size_t step = 0; step < steps; ++step) {
          all.push_back(test.draw_events(draws));
        }
        expect_adapts_as_the_textbook(test, all, scratch);
      }
    }
  }
}

TEST(MetaLearner, AdaptsAsTheTextbookDoes) {
  expect_adapts_as_the_textbook(Bookkeeping::kExplicit);
  expect_adapts_as_the_textbook(Bookkeeping::kImplicit);
}

TEST(MetaLearner, EveryTargetAdaptsImplicitlyAndTheAvxTargetsWithTheSameBits) {
  for (const bool biases : {false, true}) {
    Case test({.inputs = 90, .width = 37, .depth = 2, .biases = biases}, biases ? 31 : 32);
    test.meta.set_bookkeeping(Bookkeeping::kImplicit);
    const std::vector<std::vector<Draw>> steps{test.draw_events(6), test.draw_events(9)};
    PlainNetwork expected = test.plain();
    test.step(expected, steps[0]);
    test.step(expected, steps[1]);
    const OwnFeatures x = test.draw_features();
    std::map<std::string, AdaptedMeta> found;
    for (const std::string& target : kernels::simd_targets()) {
      const plain::SimdTargetInScope scope(target);
      MetaScratch scratch;
      found[target] = test.meta.adapted_at(x.view(), steps, test.histories, kRate, scratch);
      const double size = 1.0 + expected.magnitude(x.view());
      EXPECT_NEAR(found[target].estimate, expected.value(x.view()), 1e-5 * size) << target;
    }
    if (found.contains("avx512") && found.contains("avx2")) {
      EXPECT_TRUE(plain::same_bits(found["avx512"].estimate, found["avx2"].estimate));
    }
  }
}

// Both ways give the same numbers, but rarely the same bits; the bits show which one was taken.
TEST(MetaLearner, KeepsTheBooksInTheCheaperWay) {
  const auto estimate = [](std::uint32_t inputs, Bookkeeping bookkeeping) {
    Case test({.inputs = inputs, .width = 37}, 40);
    test.meta.set_bookkeeping(bookkeeping);
    const std::vector<std::vector<Draw>> steps{test.draw_events(6), test.draw_events(9)};
    const OwnFeatures x = test.draw_block(inputs / 2);
    MetaScratch scratch;
    return test.meta.adapted_at(x.view(), steps, test.histories, kRate, scratch).estimate;
  };
  for (const std::uint32_t inputs : {16U, 300U}) {
    const float explicitly = estimate(inputs, Bookkeeping::kExplicit);
    const float implicitly = estimate(inputs, Bookkeeping::kImplicit);
    ASSERT_FALSE(plain::same_bits(explicitly, implicitly)) << inputs;
    EXPECT_NEAR(explicitly, implicitly, 1e-5);
    EXPECT_TRUE(plain::same_bits(estimate(inputs, Bookkeeping::kBySize),
                                 inputs == 16 ? explicitly : implicitly))
        << inputs;
  }
}

TEST(MetaLearner, KeptSumsFollowThetaAndTheEvents) {
  const NetworkShape shape{.inputs = 80, .width = 20};
  Case keeps(shape, 50);
  keeps.histories = Histories(50, 3);  // reuses the slots of events
  keeps.histories.add_users(1);
  keeps.meta.set_bookkeeping(Bookkeeping::kImplicit);
  MetaScratch scratch;
  const OwnFeatures x = keeps.draw_block(70);
  std::size_t reused = 0;
  for (std::size_t round = 0; round < 30; ++round) {
    const std::size_t before = keeps.histories.event_slots();
    const OwnFeatures drawn = keeps.draw_block(70);
    keeps.meta.forget(keeps.histories.add({&kUser, 1}, {drawn.view(), 0.5F}));
    reused += keeps.histories.event_slots() == before ? 1 : 0;
    keeps.meta.keep_sums(keeps.histories, x.view());
    std::vector<Draw> draws;
    for (const std::uint32_t event : keeps.histories.events(kUser)) {
      draws.push_back({EventId{event}, 0.3F});
    }
    const std::vector<std::vector<Draw>> steps{draws, draws};
    MetaLearner fresh(shape, {keeps.meta_parameters().begin(), keeps.meta_parameters().end()});
    fresh.set_bookkeeping(Bookkeeping::kImplicit);
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(plain::same_bits(
          keeps.meta.adapted_at(x.view(), steps, keeps.histories, kRate, scratch).estimate,
          fresh.adapted_at(x.view(), steps, keeps.histories, kRate, scratch).estimate))
          << "round " << round;
    }
    if (round % 3 == 0) {
      EXPECT_TRUE(keeps.meta.adapt(x.view(), steps, keeps.histories, kRate, scratch));
    } else if (round % 3 == 1) {
      keeps.meta.parameters()[3] += 0.5F;
    }
  }
  EXPECT_GT(reused, 0U);
}

TEST(MetaLearner, WithoutDrawsStaysAsItIs) {
  MetaScratch scratch;
  for (const std::uint32_t depth : {2U, 3U}) {
    Case test({.inputs = 6, .width = 20, .depth = depth}, depth);
    const PlainNetwork theta = test.plain();
    const std::vector<float> before(test.meta.parameters().begin(), test.meta.parameters().end());
    for (const std::size_t steps : {1U, 2U}) {
      const std::vector<std::vector<Draw>> none(steps);
      const OwnFeatures x = test.draw_features();
      const AdaptedMeta adapted =
          test.meta.adapted_at(x.view(), none, test.histories, kRate, scratch);
      EXPECT_NEAR(adapted.estimate, theta.value(x.view()), 1e-5);
      EXPECT_NEAR(adapted.gradient_move, test.gradient_move(theta, x.view()), 1e-4);
      EXPECT_TRUE(test.meta.adapt(x.view(), none, test.histories, kRate, scratch));
      EXPECT_TRUE(plain::same_bits(before, test.meta.parameters()));
    }
  }
}

// The adaptation is damped: it goes down the loss, however large the rate.
TEST(MetaLearner, NeverLeavesTheFiniteNumbersByItself) {
  for (const auto& [depth, bookkeeping] :
       {std::pair(2U, Bookkeeping::kExplicit), std::pair(2U, Bookkeeping::kImplicit),
        std::pair(3U, Bookkeeping::kExplicit)}) {
    for (const double rate : {10.0, 1e6, 1e30}) {
      Case test({.inputs = 6, .width = 20, .depth = depth}, depth + 20);
      test.meta.set_bookkeeping(bookkeeping);
      MetaScratch scratch;
      const std::vector<std::vector<Draw>> steps{test.draw_events(5)};
      const Features x = test.histories.sample(steps[0][0].event).features;
      const double before = test.mean_loss(steps[0]);
      const AdaptedMeta adapted = test.meta.adapted_at(x, steps, test.histories, rate, scratch);
      EXPECT_TRUE(test.meta.adapt(x, steps, test.histories, rate, scratch));
      EXPECT_LT(test.mean_loss(steps[0]), before);
      EXPECT_TRUE(all_finite(test.meta.parameters()));
      EXPECT_NEAR(adapted.estimate, test.meta.estimate(x), 1e-5)
          << "an arm sees the step that Theta takes";
    }
  }
}

TEST(MetaLearner, StaysAsItIsWhereItHasNoFiniteValue) {
  for (const std::uint32_t depth : {2U, 3U}) {
    Case test({.inputs = 6, .width = 20, .depth = depth}, depth + 20);
    MetaScratch scratch;
    const std::vector<std::vector<Draw>> steps{test.draw_events(5), test.draw_events(5)};
    const Features x = test.histories.sample(steps[0][0].event).features;
    const float weight = std::exchange(test.meta.parameters()[0], INFINITY);
    const std::vector<float> before(test.meta.parameters().begin(), test.meta.parameters().end());
    EXPECT_FALSE(test.meta.adapt(x, steps, test.histories, kRate, scratch));
    EXPECT_TRUE(plain::same_bits(before, test.meta.parameters()));
    test.meta.parameters()[0] = weight;
    const std::vector<float> sound(test.meta.parameters().begin(), test.meta.parameters().end());
    EXPECT_TRUE(test.meta.adapt(x, steps, test.histories, kRate, scratch));
    EXPECT_FALSE(plain::same_bits(sound, test.meta.parameters()));
  }
}

// What an adaptation leaves in the scratch memory must not change the next one.
TEST(MetaLearner, AnAdaptationDoesNotLeakIntoTheNext) {
  for (const auto& [depth, bookkeeping] :
       {std::pair(2U, Bookkeeping::kExplicit), std::pair(2U, Bookkeeping::kImplicit),
        std::pair(3U, Bookkeeping::kExplicit)}) {
    Case test({.inputs = 6, .width = 20, .depth = depth}, depth + 10);
    test.meta.set_bookkeeping(bookkeeping);
    const std::vector<std::vector<Draw>> one{test.draw_events(5)};
    const std::vector<std::vector<Draw>> other{test.draw_events(9)};
    const OwnFeatures x = test.draw_features();
    const OwnFeatures y = test.draw_features();
    MetaScratch used;
    test.meta.adapted_at(x.view(), one, test.histories, kRate, used);
    const AdaptedMeta second = test.meta.adapted_at(y.view(), other, test.histories, kRate, used);
    MetaScratch fresh;
    const AdaptedMeta alone = test.meta.adapted_at(y.view(), other, test.histories, kRate, fresh);
    EXPECT_TRUE(plain::same_bits(second.estimate, alone.estimate));
    EXPECT_EQ(second.gradient_move, alone.gradient_move);
  }
}

}  // namespace
}  // namespace mcnb::meta_learner_test
