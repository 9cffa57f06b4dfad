#include "mcnb/numeric/network_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "tests/numeric/plain_network.h"

namespace mcnb::network_pool_test {
namespace {

using plain::expect_error;
using plain::OwnFeatures;
using plain::PlainNetwork;
using plain::SimdTargetInScope;

UserId user(std::size_t number) { return static_cast<UserId>(number); }

std::vector<UserId> all_users(const NetworkPool& pool) {
  std::vector<UserId> users;
  for (std::size_t i = 0; i < pool.user_count(); ++i) {
    users.push_back(user(i));
  }
  return users;
}

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// A pool in which every `every`-th user, from user 0 on, has a network of its own.
NetworkPool make_pool(Rng& rng, const NetworkShape& shape, std::size_t users, std::size_t every) {
  NetworkPool pool(shape, plain::draw_network(rng, shape));
  pool.add_users(users);
  for (std::size_t i = 0; i < users; i += every) {
    pool.set_parameters(user(i), plain::draw_network(rng, shape));
  }
  return pool;
}

// All parameters of all users.
std::vector<std::vector<float>> everything(const NetworkPool& pool) {
  std::vector<std::vector<float>> parameters;
  for (const UserId each : all_users(pool)) {
    parameters.push_back(copy_of(pool.parameters(each)));
  }
  return parameters;
}

// ---- users

TEST(NetworkPool, UsersShareTheStartUntilChanged) {
  Rng rng(1, Stream::kTest);
  const NetworkShape shape{.inputs = 3, .width = 5};
  const std::vector<float> start = plain::draw_network(rng, shape);
  NetworkPool pool(shape, start);
  EXPECT_EQ(pool.user_count(), 0U);
  pool.add_users(4);
  EXPECT_EQ(pool.user_count(), 4U);
  EXPECT_EQ(pool.distinct_count(), 0U);
  for (const UserId each : all_users(pool)) {
    EXPECT_FALSE(pool.is_distinct(each));
    EXPECT_TRUE(plain::same_bits(pool.parameters(each), start));
    EXPECT_EQ(pool.parameters(each).data(), pool.start().data()) << "a copy for nothing";
  }
  const std::vector<float> own = plain::draw_network(rng, shape);
  pool.set_parameters(user(2), own);
  EXPECT_EQ(pool.distinct_count(), 1U);
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    EXPECT_EQ(pool.is_distinct(user(i)), i == 2);
    EXPECT_TRUE(plain::same_bits(pool.parameters(user(i)), i == 2 ? own : start));
  }
  EXPECT_TRUE(plain::same_bits(pool.start(), start));
}

TEST(NetworkPool, UsersMayComeAtAnyTimeAndBeginAtTheStart) {
  Rng rng(2, Stream::kTest);
  ThreadPool threads(1);
  const NetworkShape shape{.inputs = 3, .width = 5};
  const std::vector<float> start = plain::draw_network(rng, shape);
  NetworkPool pool(shape, start);
  const OwnFeatures x{plain::draw(rng, 3)};
  for (std::size_t count = 1; count <= 5; ++count) {
    const std::vector<std::vector<float>> before = everything(pool);
    pool.add_users(count);
    for (std::size_t i = 0; i < pool.user_count(); ++i) {
      EXPECT_TRUE(plain::same_bits(pool.parameters(user(i)), i < before.size() ? before[i] : start))
          << i;
      EXPECT_EQ(pool.is_distinct(user(i)), i < before.size());
    }
    pool.step(threads, all_users(pool), {x.view(), 2.0F}, 0.1F);
    EXPECT_EQ(pool.distinct_count(), pool.user_count());
  }
}

TEST(NetworkPool, ParametersMayComeFromThePoolItself) {
  Rng rng(3, Stream::kTest);
  const NetworkShape shape{.inputs = 30, .width = 100};
  NetworkPool pool = make_pool(rng, shape, 400, 400);  // user 0 only
  const std::vector<float> first = copy_of(pool.parameters(user(0)));
  for (std::size_t i = 1; i < 400; ++i) {  // the slab moves in between
    pool.set_parameters(user(i), pool.parameters(user(i - 1)));
  }
  for (const UserId each : all_users(pool)) {
    ASSERT_TRUE(plain::same_bits(pool.parameters(each), first)) << index(each);
  }
}

TEST(NetworkPool, CopiesAreIndependentAndMovesKeepEverything) {
  Rng rng(4, Stream::kTest);
  NetworkPool pool = make_pool(rng, {.inputs = 3, .width = 5}, 6, 2);
  const std::vector<std::vector<float>> before = everything(pool);
  NetworkPool copy = pool;
  copy.set_parameters(user(0), pool.start());
  copy.set_parameters(user(1), pool.parameters(user(2)));
  EXPECT_EQ(everything(pool), before);
  EXPECT_EQ(pool.distinct_count(), 3U);
  EXPECT_EQ(copy.distinct_count(), 4U);
  const NetworkPool moved = std::move(pool);
  EXPECT_EQ(everything(moved), before);
}

// ---- memory

std::size_t resident_bytes() {
  std::size_t whole = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(NetworkPool, AMillionUntouchedUsersCostNextToNothing) {
  NetworkPool pool({.inputs = 10}, random_network({.inputs = 10}, Initialisation::kPaper, 1));
  const std::size_t before = pool.memory_bytes();
  pool.add_users(999'000);
  for (int i = 0; i < 1000; ++i) {
    pool.add_users(1);
  }
  EXPECT_EQ(pool.user_count(), 1'000'000U);
  EXPECT_LE(pool.memory_bytes() - before, 32'000'000U);
  EXPECT_GE(pool.memory_bytes() - before, 4'000'000U) << "the table of users is counted";
  // All of them are evaluated as the start is.
  ThreadPool threads(2);
  const std::vector<float> x(10, 0.3F);
  const std::vector<Features> arms = {{x, 0}};
  Predictions out;
  pool.predict(threads, arms, out);
  ASSERT_EQ(out.row(0).size(), 1'000'000U);
  const double expected = PlainNetwork(pool.shape(), pool.start()).value(arms[0]);
  EXPECT_NEAR(out.row(0)[0], expected, 1e-6);
  EXPECT_TRUE(std::ranges::all_of(out.row(0), [&](float value) { return value == out.row(0)[0]; }));
}

TEST(NetworkPool, DistinctNetworksCostTheirParametersAndLittleMore) {
  constexpr std::size_t kUsers = 20'000;
  const NetworkShape shape{.inputs = 10};
  NetworkPool pool(shape, random_network(shape, Initialisation::kPaper, 1));
  pool.add_users(kUsers);
  ThreadPool threads(1);
  const std::vector<float> x(10, 0.3F);
  const std::size_t before = resident_bytes();
  pool.step(threads, all_users(pool), {{x, 0}, 1.0F}, 0.01F);
  const std::size_t after = resident_bytes();
  EXPECT_EQ(pool.distinct_count(), kUsers);
  const auto least = static_cast<double>(kUsers * shape.parameter_count() * sizeof(float));
  EXPECT_GE(static_cast<double>(pool.memory_bytes()), least);
  EXPECT_LE(static_cast<double>(pool.memory_bytes()), 1.05 * least);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(static_cast<double>(after) - static_cast<double>(before), 1.05 * least);
#else
  EXPECT_GE(after, before);
#endif
}

// ---- steps

TEST(NetworkPool, StepsLikeThePlainNetworkAndOnlyForTheListedUsers) {
  Rng rng(5, Stream::kTest);
  ThreadPool threads(2);
  for (const NetworkShape& shape : plain::some_shapes(9)) {
    // Users 0, 3, 6 are distinct; the list holds some of both kinds.
    const NetworkPool begin = make_pool(rng, shape, 8, 3);
    const std::vector<std::vector<float>> before = everything(begin);
    const std::vector<UserId> listed = {user(1), user(3), user(4), user(6)};
    OwnFeatures x{plain::draw(rng, 5), 2};
    const auto unclear = [&](UserId each) {
      return PlainNetwork(shape, before[index(each)]).margin(x.view()) < 1e-5;
    };
    while (std::ranges::any_of(listed, unclear)) {
      x.values = plain::draw(rng, 5);
    }
    for (const std::string& target : kernels::simd_targets()) {
      SCOPED_TRACE(target + ", " + plain::describe(shape));
      const SimdTargetInScope scope(target);
      NetworkPool pool = begin;
      pool.step(threads, listed, {x.view(), -2.0F}, 0.125F);
      EXPECT_EQ(pool.distinct_count(), 5U);
      for (const UserId each : all_users(pool)) {
        const std::vector<float>& old = before[index(each)];
        if (std::ranges::count(listed, each) == 0) {
          ASSERT_TRUE(plain::same_bits(pool.parameters(each), old)) << index(each);
          continue;
        }
        PlainNetwork expected(shape, old);
        const double longest = plain::norm(expected.sgd_step(x.view(), -2.0, 0.125));
        for (std::size_t i = 0; i < old.size(); ++i) {
          const float found = pool.parameters(each)[i];
          const std::size_t row = i / shape.width;
          if (row < shape.inputs && (row < 2 || row >= 7)) {
            ASSERT_TRUE(plain::same_bits(found, old[i])) << "a row that the block does not meet";
          }
          ASSERT_NEAR(found, expected.parameters()[i], 1e-6 * std::abs(old[i]) + 1e-5 * longest)
              << "user " << index(each) << ", parameter " << i;
        }
      }
    }
  }
}

TEST(NetworkPool, SharedAndDistinctUsersWithEqualParametersStepToEqualBits) {
  Rng rng(6, Stream::kTest);
  ThreadPool threads(1);
  NetworkPool pool(
      {.inputs = 6, .width = 20, .depth = 3},
      random_network({.inputs = 6, .width = 20, .depth = 3}, Initialisation::kPaper, 1));
  pool.add_users(3);
  pool.set_parameters(user(1), pool.start());
  for (int i = 0; i < 5; ++i) {
    const OwnFeatures x{plain::draw(rng, 6)};
    pool.step(threads, all_users(pool), {x.view(), 0.5F}, 0.1F);
    EXPECT_TRUE(plain::same_bits(pool.parameters(user(0)), pool.parameters(user(1))));
    EXPECT_TRUE(plain::same_bits(pool.parameters(user(0)), pool.parameters(user(2))));
  }
  EXPECT_FALSE(plain::same_bits(pool.parameters(user(0)), pool.start()));
}

TEST(NetworkPool, StepOfNobodyChangesNothing) {
  Rng rng(7, Stream::kTest);
  ThreadPool threads(1);
  NetworkPool pool = make_pool(rng, {.inputs = 3, .width = 5}, 4, 2);
  const std::vector<std::vector<float>> before = everything(pool);
  const OwnFeatures x{plain::draw(rng, 3)};
  pool.step(threads, {}, {x.view(), 1.0F}, 0.1F);
  EXPECT_EQ(everything(pool), before);
  EXPECT_EQ(pool.distinct_count(), 2U);
}

TEST(NetworkPool, StepsAreTheSameOnAnyNumberOfThreads) {
  Rng rng(8, Stream::kTest);
  const NetworkShape shape{.inputs = 8, .width = 100};
  const NetworkPool begin = make_pool(rng, shape, 900, 2);
  std::vector<UserId> listed;
  for (std::size_t i = 0; i < 900; i += 1 + rng.below(2)) {
    listed.push_back(user(i));
  }
  std::vector<OwnFeatures> samples;
  for (std::uint32_t i = 0; i < 5; ++i) {
    samples.push_back({plain::draw(rng, 4), i});
  }
  std::vector<std::vector<float>> first;
  for (const std::size_t count : {1U, 2U, 8U}) {
    ThreadPool threads(count);
    NetworkPool pool = begin;
    for (const OwnFeatures& x : samples) {
      pool.step(threads, listed, {x.view(), 1.0F}, 0.1F);
    }
    if (first.empty()) {
      first = everything(pool);
    }
    const std::vector<std::vector<float>> found = everything(pool);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(plain::same_bits(found[i], first[i])) << count << " threads, user " << i;
    }
  }
}

// ---- refusals

TEST(NetworkPool, BadStartsAreRefused) {
  const NetworkShape shape{.inputs = 3, .width = 4};
  expect_error(ErrorKind::kUsage, "expected 16 parameters, got 15",
               [&] { NetworkPool(shape, std::vector<float>(15)); });
  expect_error(ErrorKind::kUsage, "network depth",
               [] { NetworkPool({.inputs = 3, .width = 4, .depth = 1}, std::vector<float>(16)); });
  for (const std::size_t position : {0U, 7U, 15U}) {
    std::vector<float> start(16);
    start[position] = std::nanf("");
    expect_error(ErrorKind::kInput, "finite", [&] { NetworkPool(shape, start); });
    start[position] = std::numeric_limits<float>::infinity();
    expect_error(ErrorKind::kInput, "finite", [&] { NetworkPool(shape, start); });
    NetworkPool pool(shape, std::vector<float>(16));
    pool.add_users(1);
    expect_error(ErrorKind::kInput, "finite", [&] { pool.set_parameters(user(0), start); });
    EXPECT_FALSE(pool.is_distinct(user(0)));
  }
}

TEST(NetworkPool, NoUsersOrTooManyAreRefused) {
  NetworkPool pool({.inputs = 1, .width = 1}, {1.0F, 1.0F});
  expect_error(ErrorKind::kUsage, "at least 1", [&] { pool.add_users(0); });
  pool.add_users(10);
  for (const std::size_t count : {NetworkPool::kMaxUsers - 9, NetworkPool::kMaxUsers + 1,
                                  std::numeric_limits<std::size_t>::max()}) {
    expect_error(ErrorKind::kLimit, "users", [&] { pool.add_users(count); });
  }
  EXPECT_EQ(pool.user_count(), 10U);
}

TEST(NetworkPool, StepsThatNoMachineCanHoldAreRefusedAndChangeNothing) {
  const NetworkShape shape{.inputs = 100'000};  // ten million parameters; a million users: 40 TB
  NetworkPool pool(shape, std::vector<float>(shape.parameter_count(), 0.01F));
  pool.add_users(1'000'000);
  ThreadPool threads(1);
  const std::vector<float> x(3, 1.0F);
  const std::size_t before = pool.memory_bytes();
  expect_error(ErrorKind::kLimit, "GiB", [&] {
    pool.step(threads, all_users(pool), {{x, 5}, 1.0F}, 0.1F);
  });
  EXPECT_EQ(pool.distinct_count(), 0U);
  EXPECT_EQ(pool.memory_bytes(), before);
  EXPECT_FALSE(pool.is_distinct(user(0)));
  const std::vector<UserId> few = {user(1), user(999'999)};
  pool.step(threads, few, {{x, 5}, 1.0F}, 0.1F);
  EXPECT_EQ(pool.distinct_count(), 2U);
}

TEST(NetworkPool, BadFeaturesRewardsAndRatesAreRefusedAndChangeNothing) {
  Rng rng(9, Stream::kTest);
  ThreadPool threads(1);
  NetworkPool pool = make_pool(rng, {.inputs = 4, .width = 5}, 4, 2);
  const std::vector<std::vector<float>> before = everything(pool);
  const std::vector<UserId> listed = {user(0), user(1)};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<OwnFeatures> bad = {{std::vector<float>(5), 0}, {{}, 0},
                                        {{1.0F, 1.0F}, 3},          {{1.0F}, 4},
                                        {{1.0F, std::nanf("")}, 0}, {{-infinity}, 1}};
  const OwnFeatures fine{{1.0F, 2.0F, 3.0F, 4.0F}, 0};
  Predictions out;
  GradientFactors factors;
  TrainingScratch scratch;
  for (const OwnFeatures& x : bad) {
    const std::vector<Features> arms = {fine.view(), x.view()};
    const std::vector<Sample> samples = {{fine.view(), 1.0F}, {x.view(), 1.0F}};
    expect_error(ErrorKind::kInput, "arm 1: ", [&] { pool.predict(threads, arms, out); });
    expect_error(ErrorKind::kInput, "arm 1: ", [&] { pool.predict(threads, arms, listed, out); });
    expect_error(ErrorKind::kInput,
                 "gradient: ", [&] { pool.find_gradient(user(1), x.view(), factors); });
    expect_error(ErrorKind::kInput,
                 "SGD step: ", [&] { pool.step(threads, listed, samples[1], 0.1F); });
    expect_error(ErrorKind::kInput,
                 "training sample 1: ", [&] { pool.train(user(1), samples, {}, rng, scratch); });
  }
  for (const float number : {std::nanf(""), infinity, -infinity}) {
    const std::vector<Sample> samples = {{fine.view(), number}};
    expect_error(ErrorKind::kInput, "the reward",
                 [&] { pool.step(threads, listed, samples[0], 0.1F); });
    expect_error(ErrorKind::kInput, "the rate", [&] {
      pool.step(threads, listed, {fine.view(), 1.0F}, number);
    });
    expect_error(ErrorKind::kInput, "training sample 0: the reward",
                 [&] { pool.train(user(1), samples, {}, rng, scratch); });
  }
  EXPECT_EQ(everything(pool), before);
  EXPECT_EQ(pool.distinct_count(), 2U);
}

TEST(NetworkPoolDeathTest, UsersOutsideThePoolAreABug) {
  NetworkPool pool({.inputs = 1, .width = 1}, {1.0F, 1.0F});
  pool.add_users(3);
  ThreadPool threads(1);
  const std::vector<float> x = {1.0F};
  const std::vector<Features> arms = {{x, 0}};
  const std::vector<UserId> users = {user(0), user(3)};
  const std::vector<Sample> samples = {{arms[0], 1.0F}};
  Predictions out;
  GradientFactors factors;
  TrainingScratch scratch;
  Rng rng(1, Stream::kTest);
  const char* claim = "the user is in the pool";
  EXPECT_DEATH(static_cast<void>(pool.parameters(user(3))), claim);
  EXPECT_DEATH(static_cast<void>(pool.is_distinct(user(3))), claim);
  EXPECT_DEATH(pool.set_parameters(user(3), pool.start()), claim);
  EXPECT_DEATH(pool.predict(threads, arms, users, out), claim);
  EXPECT_DEATH(pool.find_gradient(user(3), arms[0], factors), claim);
  EXPECT_DEATH(pool.step(threads, users, samples[0], 0.1F), claim);
  EXPECT_DEATH(pool.train(user(3), samples, {}, rng, scratch), claim);
  EXPECT_DEATH(pool.set_parameters(user(0), x), "the parameters match the network's shape");
}

TEST(NetworkPoolDeathTest, UsersOfAStepOutOfOrderAreABug) {
  NetworkPool pool({.inputs = 1, .width = 1}, {1.0F, 1.0F});
  pool.add_users(3);
  ThreadPool threads(1);
  const std::vector<float> x = {1.0F};
  for (const std::vector<UserId>& users :
       {std::vector{user(1), user(0)}, std::vector{user(0), user(2), user(2)}}) {
    EXPECT_DEATH(pool.step(threads, users, {{x, 0}, 1.0F}, 0.1F), "ascending order");
  }
}

}  // namespace
}  // namespace mcnb::network_pool_test
