// Walks over learners whose networks do not change: what they sample, and where they end.

#include "mcnb/bandit/mcnb/learner_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <span>
#include <sstream>

#include "mcnb/bandit/mcnb/member_draws.h"
#include "mcnb/bandit/mcnb/walk_order.h"
#include "tests/expect_error.h"

namespace mcnb::learner_walk_test {
namespace {

using Order = std::function<std::vector<std::uint32_t>(RoundId round, std::uint32_t count)>;

constexpr std::uint64_t kSeed = 5;
constexpr float kGap = 0.5F;

McnbOptions options_of(std::uint64_t samples, std::uint64_t steps, std::uint64_t limit = 0) {
  McnbOptions options;
  options.scan = Scan::kSampled;
  options.feedback = Feedback::kServed;
  options.meta_samples = samples;
  options.meta_steps = steps;
  options.scan_limit = limit;
  return options;
}

// Learners for whom f(x) is 0 (members) or 10 (others) at x = 1, or as long as they have no history
// `untouched`.
class Learners {
 public:
  Learners(std::size_t count, const std::function<bool(std::uint32_t)>& is_member,
           float untouched = 0.0F)
      : pool({.inputs = 1, .width = 1}, {1.0F, untouched}), histories(kSeed, 0) {
    pool.add_users(count);
    histories.add_users(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      pool.set_parameters(UserId{i}, std::vector{1.0F, is_member(i) ? 0.0F : 10.0F});
    }
  }

  // Gives these learners a history, in this order, and lists them.
  void list(LearnerWalk& walk, std::span<const UserId> learners) {
    for (const UserId learner : learners) {
      histories.add({&learner, 1}, {{x}, 1.0F});
      walk.add(learner);
    }
  }
  void list_all(LearnerWalk& walk) { list(walk, everybody()); }

  std::vector<UserId> everybody() const {
    std::vector<UserId> all;
    for (std::uint32_t i = 0; i < pool.user_count(); ++i) {
      all.push_back(UserId{i});
    }
    return all;
  }

  FoundCluster find(const LearnerWalk& walk, RoundId round, UserId served) {
    const Candidate arm{round, {.user = served, .features = {x}}, served};
    return walk.find(threads, pool, histories, {&arm, 1})[0].value();
  }

  std::vector<float> x{1.0F};
  ThreadPool threads{1};
  NetworkPool pool;
  Histories histories;
};

Cluster cluster_of(std::initializer_list<std::uint32_t> learners) {
  Cluster cluster;
  for (const std::uint32_t learner : learners) {
    cluster.push_back(UserId{learner});
  }
  return cluster;
}

// --- Every member, and every pair of members, is sampled equally often.

constexpr std::size_t kRounds = 10'000;
constexpr std::size_t kSampled = 4;

struct Unevenness {
  double singles = 0.0;
  double pairs = 0.0;
};

// Chi-square statistics of how often each member, and each pair, is among those that a round
// samples. `sample` returns the numbers of kSampled different members, each below `members`.
template <class Sample>
Unevenness unevenness(std::size_t members, Sample sample) {
  std::vector<double> singles(members);
  std::vector<double> pairs(members * members);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::vector<std::size_t> sampled = sample(round);
    EXPECT_EQ(sampled.size(), kSampled);
    for (const std::size_t a : sampled) {
      ++singles[a];
      for (const std::size_t b : sampled) {
        pairs[a * members + b] += a < b ? 1.0 : 0.0;
      }
    }
  }
  const double each = static_cast<double>(kRounds * kSampled) / static_cast<double>(members);
  const double each_pair =
      each * static_cast<double>(kSampled - 1) / static_cast<double>(members - 1);
  Unevenness found;
  for (std::size_t a = 0; a < members; ++a) {
    found.singles += (singles[a] - each) * (singles[a] - each) / each;
    for (std::size_t b = a + 1; b < members; ++b) {
      const double more = pairs[a * members + b] - each_pair;
      found.pairs += more * more / each_pair;
    }
  }
  return found;
}

// The largest statistics that samples of an honest shuffle may have: five standard deviations above
// their mean in thirty repetitions.
Unevenness largest_of_a_shuffle(std::size_t members) {
  constexpr int kRepetitions = 30;
  Unevenness sum;
  Unevenness squares;
  for (std::uint32_t repetition = 0; repetition < kRepetitions; ++repetition) {
    const Unevenness one = unevenness(members, [&](std::size_t round) {
      Rng rng(kSeed, Stream::kTest, round, repetition);
      const std::vector<std::uint64_t> drawn = rng.sample_without_replacement(members, kSampled);
      return std::vector<std::size_t>(drawn.begin(), drawn.end());
    });
    sum.singles += one.singles;
    sum.pairs += one.pairs;
    squares.singles += one.singles * one.singles;
    squares.pairs += one.pairs * one.pairs;
  }
  const auto bound = [](double total, double total_of_squares) {
    const double mean = total / kRepetitions;
    return mean + 5.0 * std::sqrt(total_of_squares / kRepetitions - mean * mean);
  };
  return {bound(sum.singles, squares.singles), bound(sum.pairs, squares.pairs)};
}

struct Share {
  std::uint32_t learners;
  std::uint32_t members;  // those whose number, scattered by a factor, is below this
  bool is_member(std::uint32_t i) const { return i * 37 % learners < members; }
};
constexpr Share kShares[] = {{200, 10}, {100, 30}, {60, 60}};

// The first members in the order, by their rank among the members.
std::vector<std::size_t> first_members(const Share& share,
                                       const std::vector<std::uint32_t>& order) {
  std::vector<std::size_t> rank(share.learners);
  for (std::uint32_t i = 0, next = 0; i < share.learners; ++i) {
    rank[i] = share.is_member(i) ? next++ : 0;
  }
  std::vector<std::size_t> sampled;
  for (const std::uint32_t i : order) {
    if (share.is_member(i) && sampled.size() < kSampled) {
      sampled.push_back(rank[i]);
    }
  }
  return sampled;
}

std::vector<std::uint32_t> walk_order(RoundId round, std::uint32_t count) {
  WalkOrder order(kSeed, round, count);
  std::vector<std::uint32_t> numbers(count);
  std::ranges::generate(numbers, [&] { return order.next(); });
  return numbers;
}

// All numbers from a random one on, in steps of an odd number.
std::vector<std::uint32_t> strided(RoundId round, std::uint32_t count, bool any_stride) {
  Rng rng(kSeed, Stream::kTest, index(round), 77);
  const std::uint64_t domain = std::bit_ceil(count);
  const std::uint64_t start = rng.below(domain);
  const std::uint64_t stride = any_stride ? 2 * rng.below(domain / 2) + 1 : 1;
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t i = 0; i < domain; ++i) {
    const std::uint64_t number = (start + i * stride) % domain;
    if (number < count) {
      numbers.push_back(static_cast<std::uint32_t>(number));
    }
  }
  return numbers;
}

TEST(LearnerWalk, SamplesMembersAndPairsOfMembersEquallyOften) {
  for (const Share& share : kShares) {
    SCOPED_TRACE(testing::Message() << share.members << " of " << share.learners);
    Learners world(share.learners, [&](std::uint32_t i) { return share.is_member(i); });
    LearnerWalk walk(options_of(2, 2), kSeed, kGap);
    world.list_all(walk);
    const Unevenness largest = largest_of_a_shuffle(share.members);
    const Unevenness found = unevenness(share.members, [&](std::size_t round) {
      const FoundCluster cluster = world.find(walk, RoundId{round}, UserId{0});
      EXPECT_TRUE(cluster.is_enough);
      std::vector<std::uint32_t> met;
      for (const UserId member : cluster.members) {
        met.push_back(static_cast<std::uint32_t>(index(member)));
      }
      return first_members(share, met);
    });
    EXPECT_LT(found.singles, largest.singles);
    EXPECT_LT(found.pairs, largest.pairs);
  }
}

// The same test notices orders that are not random enough.
TEST(LearnerWalk, ARotationOrAStrideWouldNotSampleEvenly) {
  const std::pair<const char*, Order> kOrders[] = {
      {"permutation", walk_order},
      {"rotation", [](RoundId round, std::uint32_t n) { return strided(round, n, false); }},
      {"stride", [](RoundId round, std::uint32_t n) { return strided(round, n, true); }}};
  for (const Share& share : kShares) {
    const Unevenness largest = largest_of_a_shuffle(share.members);
    for (const auto& [name, order] : kOrders) {
      const Unevenness found = unevenness(share.members, [&, &order = order](std::size_t round) {
        return first_members(share, order(RoundId{round}, share.learners));
      });
      EXPECT_EQ(found.pairs < largest.pairs, name == std::string("permutation"))
          << name << ", " << share.members << " of " << share.learners;
    }
  }
}

// --- Where walks end.

TEST(LearnerWalk, OfASmallClusterIsWhatAllLearnersGive) {
  Learners world(50, [](std::uint32_t i) { return i % 10 == 3; });
  LearnerWalk walk(options_of(2, 3), kSeed, kGap);
  std::vector<UserId> backwards = world.everybody();
  std::ranges::reverse(backwards);
  world.list(walk, backwards);
  const FoundCluster found = world.find(walk, RoundId{8}, UserId{13});
  EXPECT_EQ(found.members, cluster_of({3, 13, 23, 33, 43}));
  EXPECT_EQ(found.size, 5U);
  EXPECT_FALSE(found.is_enough);
  EXPECT_EQ(found.sample->found, 5U);
  EXPECT_EQ(found.sample->visited, 50U);
  MemberDraws draws(options_of(2, 3), kSeed);
  const auto steps = draws.draw(world.histories, found, RoundId{8}, ArmIndex{1});
  const std::vector<std::vector<Draw>> sampled(steps.begin(), steps.end());
  const auto expected =
      draws.draw(world.histories, cluster_of({3, 13, 23, 33, 43}), RoundId{8}, ArmIndex{1});
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_TRUE(std::ranges::equal(sampled[step], expected[step], [](const Draw& a, const Draw& b) {
      return a.event == b.event && a.weight == b.weight;
    }));
  }
}

TEST(LearnerWalk, EndsAtTheMemberThatIsEnoughAndEachStepTakesTheNextOnes) {
  Learners world(64, [](std::uint32_t i) { return i % 4 == 0; });
  LearnerWalk walk(options_of(3, 2), kSeed, kGap);
  world.list_all(walk);
  for (std::uint64_t round = 0; round < 50; ++round) {
    Cluster expected;
    std::size_t visited = 0;
    for (const std::uint32_t i : walk_order(RoundId{round}, 64)) {
      if (expected.size() < 6) {
        ++visited;
        if (i % 4 == 0) {
          expected.push_back(UserId{i});
        }
      }
    }
    const FoundCluster found = world.find(walk, RoundId{round}, UserId{4});
    EXPECT_TRUE(found.is_enough);
    EXPECT_EQ(found.members, expected);
    EXPECT_EQ(found.sample->visited, visited);
    EXPECT_EQ(found.size, static_cast<std::size_t>(
                              std::lround(5.0 / (static_cast<double>(visited) - 1.0) * 64.0)));
    MemberDraws draws(options_of(3, 2), kSeed);
    const auto steps = draws.draw(world.histories, found, RoundId{round}, ArmIndex{0});
    for (std::size_t step = 0; step < 2; ++step) {  // learner i has event i alone
      ASSERT_EQ(steps[step].size(), 3U);
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(index(steps[step][k].event), index(expected[3 * step + k]));
        EXPECT_FLOAT_EQ(steps[step][k].weight, 1.0F / 3.0F);
      }
    }
  }
}

TEST(LearnerWalk, EndsAtTheLimitWhereTheServedLearnerJoins) {
  Learners world(
      100, [](std::uint32_t i) { return i % 5 == 0; }, 10.0F);
  LearnerWalk walk(options_of(50, 1, 20), kSeed, kGap);
  std::vector<UserId> listed = world.everybody();
  listed.pop_back();  // learner 99 has no history
  world.list(walk, listed);
  std::size_t joined = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    std::vector<std::uint32_t> order = walk_order(RoundId{round}, 99);
    order.resize(20);
    Cluster expected;
    for (const std::uint32_t i : order) {
      if (i % 5 == 0) {
        expected.push_back(UserId{i});
      }
    }
    if (std::ranges::find(expected, UserId{50}) == expected.end()) {
      expected.push_back(UserId{50});
      ++joined;
    }
    std::ranges::sort(expected);
    const FoundCluster found = world.find(walk, RoundId{round}, UserId{50});
    EXPECT_EQ(found.members, expected);
    EXPECT_EQ(found.sample->visited, 20U);
    const double estimate = (static_cast<double>(expected.size()) - 1.0) / 19.0 * 99.0;
    EXPECT_EQ(found.size, std::max<std::size_t>(expected.size(), std::lround(estimate)));
    for (const UserId member : world.find(walk, RoundId{round}, UserId{99}).members) {
      EXPECT_NE(member, UserId{99});
      EXPECT_NE(index(member) % 5, 0U);
    }
  }
  EXPECT_GT(joined, 30U);
}

TEST(LearnerWalk, CountsUntouchedLearnersIfTheyAgree) {
  for (const float untouched : {0.0F, 10.0F}) {
    Learners world(
        30, [&](std::uint32_t i) { return i < 6 || (i >= 20 && untouched == 0.0F); }, untouched);
    LearnerWalk walk(options_of(100, 1), kSeed, kGap);
    const std::vector<UserId> all = world.everybody();
    world.list(walk, std::span(all).first(20));
    EXPECT_EQ(world.find(walk, RoundId{1}, UserId{0}).size, untouched == 0.0F ? 16U : 6U);
  }
}

TEST(LearnerWalk, OfNobodyFindsNobody) {
  Learners world(3, [](std::uint32_t) { return true; });
  const LearnerWalk walk(options_of(2, 2), kSeed, kGap);
  const FoundCluster found = world.find(walk, RoundId{1}, UserId{0});
  EXPECT_TRUE(found.members.empty());
  EXPECT_EQ(found.size, 3U);
  EXPECT_EQ(found.sample->visited, 0U);
}

TEST(LearnerWalk, FindsNothingForALearnerWithoutAFiniteEstimate) {
  Learners world(3, [](std::uint32_t) { return true; });
  LearnerWalk walk(options_of(2, 2), kSeed, kGap);
  world.list_all(walk);
  world.pool.set_parameters(UserId{1}, std::vector{1e30F, 1e30F});
  const std::vector<Candidate> arms{{RoundId{1}, {.features = {world.x}}, UserId{1}},
                                    {RoundId{1}, {.features = {world.x}}, UserId{2}}};
  const auto found = walk.find(world.threads, world.pool, world.histories, arms);
  EXPECT_FALSE(found[0].has_value());
  EXPECT_TRUE(found[1].has_value());
}

// --- The list of learners.

TEST(LearnerWalk, ForgettingPutsTheLastLearnerIntoTheGap) {
  LearnerWalk walk(options_of(2, 2), kSeed, kGap);
  for (const std::uint32_t i : {4U, 2U, 7U, 1U}) {
    walk.add(UserId{i});
  }
  const auto listed = [&] { return Cluster(walk.listed().begin(), walk.listed().end()); };
  walk.forget(UserId{2});
  EXPECT_EQ(listed(), cluster_of({4, 1, 7}));
  walk.forget(UserId{7});
  EXPECT_EQ(listed(), cluster_of({4, 1}));
  walk.forget(UserId{9});
  walk.add(UserId{2});
  EXPECT_EQ(listed(), cluster_of({4, 1, 2}));
}

TEST(LearnerWalk, RefusesAListThatIsNotThatOfTheHistories) {
  Learners world(4, [](std::uint32_t) { return true; });
  LearnerWalk walk(options_of(2, 2), kSeed, kGap);
  world.list(walk, cluster_of({3, 0, 1}));
  const auto loaded = [&](const Cluster& learners) {
    std::ostringstream out;
    StateWriter writer(out, "state", {.kind = "test"});
    writer.write_all(learners);
    writer.finish();
    std::istringstream in(out.str());
    StateReader reader(in, "state", {.kind = "test"});
    LearnerWalk other(options_of(2, 2), kSeed, kGap);
    other.load(reader, world.histories);
    return Cluster(other.listed().begin(), other.listed().end());
  };
  EXPECT_EQ(loaded(cluster_of({3, 0, 1})), cluster_of({3, 0, 1}));
  for (const Cluster& wrong : {cluster_of({3, 0}), cluster_of({3, 0, 1, 1}), cluster_of({3, 0, 2}),
                               cluster_of({3, 0, 9}), cluster_of({0, 0, 1})}) {
    expect_error(ErrorKind::kCorrupt, "the list of learners", [&] { loaded(wrong); });
  }
}

}  // namespace
}  // namespace mcnb::learner_walk_test
