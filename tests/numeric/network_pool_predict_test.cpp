#include <gtest/gtest.h>

#include "mcnb/numeric/network_pool.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::network_pool_predict_test {
namespace {

using plain::OwnFeatures;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

UserId user(std::size_t number) { return static_cast<UserId>(number); }

// A pool in which every `every`-th user, from user 0 on, has a network of its own.
NetworkPool make_pool(Rng& rng, const NetworkShape& shape, std::size_t users, std::size_t every) {
  NetworkPool pool(shape, plain::draw_network(rng, shape));
  pool.add_users(users);
  for (std::size_t i = 0; i < users; i += every) {
    pool.set_parameters(user(i), plain::draw_network(rng, shape));
  }
  return pool;
}

// Runs of arms of one block, of 1, 2, ... arms up to more than a tile, mixed with dense ones. Some
// neighbours have the same length at another offset, or the same offset and another length.
std::vector<OwnFeatures> mixed_arms(Rng& rng, std::uint32_t inputs) {
  struct Block {
    std::uint32_t offset;
    std::uint32_t count;
    std::size_t arms;
  };
  std::vector<OwnFeatures> arms;
  for (const Block& block : {Block{0, inputs, 2},
                             {1, 3, 1},
                             {2, 3, 30},
                             {2, 4, 1},
                             {2, 3, 3},
                             {inputs - 1, 1, 2},
                             {0, inputs, 13},
                             {0, 1, 1}}) {
    for (std::size_t i = 0; i < block.arms; ++i) {
      arms.push_back({plain::draw(rng, block.count), block.offset});
    }
  }
  return arms;
}

// Every column belongs to users[column].
void expect_plain_predictions(const NetworkPool& pool, std::span<const OwnFeatures> arms,
                              std::span<const UserId> users, const Predictions& found) {
  ASSERT_EQ(found.arm_count(), arms.size());
  ASSERT_EQ(found.user_count(), users.size());
  GradientFactors factors;
  for (std::size_t column = 0; column < users.size(); ++column) {
    const PlainNetwork network(pool.shape(), pool.parameters(users[column]));
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      const float value = found.row(arm)[column];
      ASSERT_NEAR(value, network.value(arms[arm].view()),
                  6 * 0x1p-24 * network.magnitude(arms[arm].view()))
          << "arm " << arm << ", user " << index(users[column]);
      pool.find_gradient(users[column], arms[arm].view(), factors);
      ASSERT_TRUE(plain::same_bits(value, factors.value)) << value << " is not " << factors.value;
    }
  }
}

TEST(NetworkPoolPredict, MatchesThePlainNetworkForAllUsersAndMixedArms) {
  Rng rng(1, Stream::kTest);
  ThreadPool threads(2);
  for (const NetworkShape& shape : plain::some_shapes(9)) {
    if (shape.width > 100 && shape.depth > 3) {
      continue;  // the oracle is slow
    }
    for (const std::size_t every : {1U, 3U, 100U}) {  // all distinct, some, only user 0
      const NetworkPool pool = make_pool(rng, shape, 5, every);
      const std::vector<OwnFeatures> arms = mixed_arms(rng, shape.inputs);
      const std::vector<UserId> users = {user(0), user(1), user(2), user(3), user(4)};
      SCOPED_TRACE(testing::Message() << plain::describe(shape) << ", every " << every);
      Predictions out;
      pool.predict(threads, plain::views(arms), out);
      ASSERT_NO_FATAL_FAILURE(expect_plain_predictions(pool, arms, users, out));
    }
  }
}

TEST(NetworkPoolPredict, MatchesThePlainNetworkOnEveryTarget) {
  Rng rng(2, Stream::kTest);
  ThreadPool threads(1);
  const NetworkPool pool = make_pool(rng, {.inputs = 9, .width = 33, .depth = 3}, 4, 2);
  const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
  const std::vector<UserId> users = {user(0), user(1), user(2), user(3)};
  for (const std::string& target : kernels::simd_targets()) {
    SCOPED_TRACE(target);
    const SimdTargetInScope scope(target);
    Predictions out;
    pool.predict(threads, plain::views(arms), out);
    ASSERT_NO_FATAL_FAILURE(expect_plain_predictions(pool, arms, users, out));
  }
}

TEST(NetworkPoolPredict, TakesUsersInAnyOrderAndMoreThanOnce) {
  Rng rng(3, Stream::kTest);
  ThreadPool threads(2);
  const NetworkPool pool = make_pool(rng, {.inputs = 9, .width = 17}, 7, 2);
  const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
  const std::vector<UserId> users = {user(6), user(1), user(1), user(0), user(6),
                                     user(2), user(3), user(6), user(5)};
  Predictions out;
  pool.predict(threads, plain::views(arms), users, out);
  expect_plain_predictions(pool, arms, users, out);
}

TEST(NetworkPoolPredict, GivesAListTheBitsOfTheWhole) {
  Rng rng(4, Stream::kTest);
  ThreadPool threads(2);
  const NetworkPool pool = make_pool(rng, {.inputs = 9, .width = 100, .depth = 3}, 300, 2);
  const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
  std::vector<UserId> users;
  for (int i = 0; i < 500; ++i) {
    users.push_back(user(rng.below(300)));
  }
  Predictions whole;
  Predictions list;
  pool.predict(threads, plain::views(arms), whole);
  pool.predict(threads, plain::views(arms), users, list);
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    for (std::size_t column = 0; column < users.size(); ++column) {
      ASSERT_TRUE(plain::same_bits(list.row(arm)[column], whole.row(arm)[index(users[column])]));
    }
  }
}

TEST(NetworkPoolPredict, OfAnArmDoNotDependOnTheOtherArms) {
  Rng rng(5, Stream::kTest);
  ThreadPool threads(1);
  for (const std::uint32_t depth : {2U, 3U}) {
    const NetworkPool pool = make_pool(rng, {.inputs = 9, .width = 40, .depth = depth}, 4, 2);
    const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
    Predictions together;
    pool.predict(threads, plain::views(arms), together);
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      const Features x = arms[arm].view();
      Predictions alone;
      pool.predict(threads, {&x, 1}, alone);
      ASSERT_TRUE(plain::same_bits(alone.row(0), together.row(arm))) << arm;
    }
  }
}

// Tests more users than a thread takes at a time, with small and with large networks.
TEST(NetworkPoolPredict, IsTheSameOnAnyNumberOfThreads) {
  Rng rng(6, Stream::kTest);
  struct Size {
    NetworkShape shape;
    std::size_t users;
    std::size_t every;
  };
  for (const Size& size :
       {Size{{.inputs = 9, .width = 1}, 3000, 2}, Size{{.inputs = 9, .width = 100}, 700, 2},
        Size{{.inputs = 9, .width = 60, .depth = 4, .biases = true}, 90, 1},
        Size{{.inputs = 9, .width = 3}, 70'000, 100'000}}) {
    const NetworkPool pool = make_pool(rng, size.shape, size.users, size.every);
    const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
    std::vector<UserId> users;
    for (int i = 0; i < 1500; ++i) {
      users.push_back(user(rng.below(size.users)));
    }
    Predictions first_whole;
    Predictions first_list;
    ThreadPool alone(1);
    pool.predict(alone, plain::views(arms), first_whole);
    pool.predict(alone, plain::views(arms), users, first_list);
    for (const std::size_t count : {2U, 8U}) {
      ThreadPool threads(count);
      Predictions whole;
      Predictions list;
      pool.predict(threads, plain::views(arms), whole);
      pool.predict(threads, plain::views(arms), users, list);
      for (std::size_t arm = 0; arm < arms.size(); ++arm) {
        ASSERT_TRUE(plain::same_bits(whole.row(arm), first_whole.row(arm))) << count;
        ASSERT_TRUE(plain::same_bits(list.row(arm), first_list.row(arm))) << count;
      }
    }
    // The predictions are also right at the boundaries between threads.
    for (int i = 0; i < 50; ++i) {
      const std::size_t column = rng.below(size.users);
      const OwnFeatures& x = arms[i % arms.size()];
      const PlainNetwork network(size.shape, pool.parameters(user(column)));
      ASSERT_NEAR(first_whole.row(i % arms.size())[column], network.value(x.view()),
                  6 * 0x1p-24 * network.magnitude(x.view()));
    }
  }
}

TEST(NetworkPoolPredict, ReusesItsResultForOtherSizes) {
  Rng rng(7, Stream::kTest);
  ThreadPool threads(1);
  const NetworkPool pool = make_pool(rng, {.inputs = 9, .width = 10}, 6, 2);
  const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
  Predictions reused;
  for (const std::size_t count : {arms.size(), std::size_t{1}, std::size_t{7}}) {
    const auto some = std::span(arms).first(count);
    Predictions fresh;
    pool.predict(threads, plain::views(some), reused);
    pool.predict(threads, plain::views(some), fresh);
    ASSERT_EQ(reused.arm_count(), count);
    for (std::size_t arm = 0; arm < count; ++arm) {
      EXPECT_TRUE(plain::same_bits(reused.row(arm), fresh.row(arm)));
    }
  }
}

TEST(NetworkPoolPredict, OfNoArmsOrNoUsersIsEmpty) {
  Rng rng(8, Stream::kTest);
  ThreadPool threads(1);
  NetworkPool pool({.inputs = 3, .width = 2}, plain::draw_network(rng, {.inputs = 3, .width = 2}));
  const OwnFeatures x{plain::draw(rng, 3)};
  const Features arm = x.view();
  Predictions out;
  pool.predict(threads, {&arm, 1}, out);
  EXPECT_EQ(out.arm_count(), 1U);
  EXPECT_EQ(out.user_count(), 0U);
  EXPECT_TRUE(out.row(0).empty());
  pool.add_users(5);
  pool.predict(threads, {}, out);
  EXPECT_EQ(out.arm_count(), 0U);
  EXPECT_EQ(out.user_count(), 5U);
  pool.predict(threads, {&arm, 1}, {}, out);
  EXPECT_EQ(out.arm_count(), 1U);
  EXPECT_EQ(out.user_count(), 0U);
}

TEST(Predictions, OfAnAbsurdSizeAreRefusedAndChangeNothing) {
  Predictions out;
  out.resize(2, 3);
  constexpr std::size_t kHuge = std::size_t{1} << 31;
  plain::expect_error(ErrorKind::kLimit, std::to_string(kHuge) + " arms",
                      [&] { out.resize(kHuge, kHuge); });
  EXPECT_EQ(out.arm_count(), 2U);
  EXPECT_EQ(out.user_count(), 3U);
  EXPECT_EQ(out.row(1).size(), 3U);
}

TEST(NetworkPoolPredict, AvxTargetsAgreeBitForBit) {
  if (!plain::machine_has("avx512") || !plain::machine_has("avx2")) {
    GTEST_SKIP() << "this machine has no AVX-512, or no AVX2";
  }
  Rng rng(9, Stream::kTest);
  ThreadPool threads(1);
  for (const NetworkShape& shape : plain::some_shapes(9)) {
    const NetworkPool pool = make_pool(rng, shape, 4, 2);
    const std::vector<OwnFeatures> arms = mixed_arms(rng, 9);
    Predictions wide;
    Predictions narrow;
    {
      const SimdTargetInScope scope("avx512");
      pool.predict(threads, plain::views(arms), wide);
    }
    {
      const SimdTargetInScope scope("avx2");
      pool.predict(threads, plain::views(arms), narrow);
    }
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      ASSERT_TRUE(plain::same_bits(wide.row(arm), narrow.row(arm)))
          << plain::describe(shape) << ", arm " << arm;
    }
  }
}

}  // namespace
}  // namespace mcnb::network_pool_predict_test
