#include "mcnb/numeric/kmeans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/numeric/plain_network.h"

namespace mcnb::kmeans_test {
namespace {

using plain::expect_error;

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  return sum;
}

// Checks by brute force what must be true after Lloyd's iterations have ended.
void expect_settled(std::span<const float> points, std::size_t dimension, std::size_t groups,
                    const KMeans& result) {
  const std::size_t count = points.size() / dimension;
  const std::size_t found = result.centres.size() / dimension;
  ASSERT_EQ(result.group.size(), count);
  ASSERT_GE(found, 1U);
  ASSERT_LE(found, groups);
  std::vector<std::size_t> sizes(found, 0);
  std::vector<double> means(found * dimension, 0.0);
  double spread = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto point = points.subspan(i * dimension, dimension);
    const auto distance_to = [&](std::size_t group) {
      return squared_distance(point,
                              std::span(result.centres).subspan(group * dimension, dimension));
    };
    ASSERT_LT(result.group[i], found);
    const double own = distance_to(result.group[i]);
    for (std::size_t group = 0; group < found; ++group) {
      EXPECT_LE(own, distance_to(group)) << "point " << i;
    }
    spread += own;
    ++sizes[result.group[i]];
    for (std::size_t j = 0; j < dimension; ++j) {
      means[result.group[i] * dimension + j] += point[j];
    }
  }
  EXPECT_NEAR(result.spread, spread, 1e-9 * (1.0 + spread));
  for (std::size_t group = 0; group < found; ++group) {
    ASSERT_GT(sizes[group], 0U) << "group " << group << " of " << found << " is empty";
    for (std::size_t j = 0; j < dimension; ++j) {
      EXPECT_NEAR(result.centres[group * dimension + j],
                  means[group * dimension + j] / static_cast<double>(sizes[group]), 1e-5);
    }
  }
}

// k-means++: each further centre is a point drawn in proportion to its squared distance from the
// nearest centre so far.
std::vector<std::vector<float>> plain_first_centres(std::span<const float> points,
                                                    std::size_t dimension, std::size_t groups,
                                                    Rng rng) {
  const std::size_t count = points.size() / dimension;
  const auto point = [&](std::size_t i) { return points.subspan(i * dimension, dimension); };
  std::vector<std::vector<float>> centres;
  std::size_t chosen = static_cast<std::size_t>(rng.below(count));
  while (centres.size() < groups) {
    centres.emplace_back(point(chosen).begin(), point(chosen).end());
    std::vector<double> nearest(count, std::numeric_limits<double>::infinity());
    double total = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::vector<float>& centre : centres) {
        nearest[i] = std::min(nearest[i], squared_distance(point(i), centre));
      }
      total += nearest[i];
    }
    if (total == 0.0) {
      break;
    }
    double left = rng.uniform() * total;
    for (chosen = 0; chosen + 1 < count && left >= nearest[chosen]; ++chosen) {
      left -= nearest[chosen];
    }
  }
  return centres;
}

// Textbook k-means: every iteration compares every point with every centre.
KMeans plain_k_means(std::span<const float> points, std::size_t dimension, std::size_t groups,
                     std::uint64_t seed, std::size_t most_iterations, std::size_t start) {
  const std::size_t count = points.size() / dimension;
  const auto point = [&](std::size_t i) { return points.subspan(i * dimension, dimension); };
  std::vector<std::vector<float>> centres =
      plain_first_centres(points, dimension, groups, Rng(seed, Stream::kPreClusters, start));
  KMeans result;
  result.group.assign(count, 999'999);
  for (bool changed = true; result.iterations < most_iterations; ++result.iterations) {
    changed = false;
    result.spread = 0.0;
    std::vector<std::vector<double>> sums(centres.size(), std::vector<double>(dimension));
    std::vector<std::size_t> sizes(centres.size());
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t best = 0;
      for (std::uint32_t group = 1; group < centres.size(); ++group) {
        if (squared_distance(point(i), centres[group]) <
            squared_distance(point(i), centres[best])) {
          best = group;
        }
      }
      changed = changed || best != result.group[i];
      result.group[i] = best;
      result.spread += squared_distance(point(i), centres[best]);
      ++sizes[best];
      for (std::size_t j = 0; j < dimension; ++j) {
        sums[best][j] += static_cast<double>(point(i)[j]);
      }
    }
    if (!changed) {
      break;
    }
    for (std::size_t group = 0; group < centres.size(); ++group) {
      for (std::size_t j = 0; sizes[group] > 0 && j < dimension; ++j) {
        centres[group][j] = static_cast<float>(sums[group][j] / static_cast<double>(sizes[group]));
      }
    }
  }
  const std::set<std::uint32_t> taken(result.group.begin(), result.group.end());
  for (const std::uint32_t group : taken) {
    result.centres.insert(result.centres.end(), centres[group].begin(), centres[group].end());
  }
  for (std::uint32_t& group : result.group) {
    group = static_cast<std::uint32_t>(std::distance(taken.begin(), taken.find(group)));
  }
  return result;
}

void expect_same(const KMeans& one, const KMeans& two) {
  EXPECT_EQ(one.group, two.group);
  EXPECT_TRUE(plain::same_bits(one.centres, two.centres));
  EXPECT_EQ(one.spread, two.spread);
  EXPECT_EQ(one.iterations, two.iterations);
}

std::vector<float> draw_points(Rng& rng, std::size_t count, bool on_a_grid) {
  std::vector<float> points;
  for (std::size_t i = 0; i < count; ++i) {
    points.push_back(on_a_grid ? static_cast<float>(rng.below(4))
                               : static_cast<float>(rng.normal()));
  }
  return points;
}

TEST(KMeans, EveryPointIsNearestToTheMeanOfItsGroup) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, Stream::kTest);
    const auto dimension = static_cast<std::size_t>(1 + rng.below(3));
    const auto count = static_cast<std::size_t>(1 + rng.below(40));
    const auto groups = static_cast<std::size_t>(1 + rng.below(count));
    const std::vector<float> points = draw_points(rng, count * dimension, rng.chance(0.5));
    expect_settled(points, dimension, groups, k_means(points, dimension, groups, seed));
  }
}

// Seeds where Lloyd's iterations take all points from a group.
TEST(KMeans, NoGroupIsEmptyAtTheEnd) {
  for (const std::uint64_t seed : {94247U, 152977U, 184036U, 279439U, 333791U}) {
    SCOPED_TRACE(seed);
    Rng rng(seed, Stream::kTest);
    const auto dimension = static_cast<std::size_t>(1 + rng.below(3));
    const auto count = static_cast<std::size_t>(1 + rng.below(30));
    const auto groups = static_cast<std::size_t>(1 + rng.below(count));
    const bool on_a_grid = rng.chance(0.5);
    std::vector<float> points;
    for (std::size_t i = 0; i < count * dimension; ++i) {
      points.push_back(on_a_grid ? static_cast<float>(rng.below(6))
                                 : static_cast<float>(rng.normal()));
    }
    const KMeans result = k_means(points, dimension, groups, seed);
    expect_settled(points, dimension, groups, result);
    EXPECT_EQ(result.centres.size(), (groups - 1) * dimension);
  }
}

TEST(KMeans, FindsGroupsThatAreFarApart) {
  Rng rng(3, Stream::kTest);
  std::vector<float> points;
  for (std::size_t i = 0; i < 120; ++i) {
    const double angle = 2.0 * 3.14159265 * static_cast<double>(i % 6) / 6.0;
    points.push_back(static_cast<float>(20.0 * std::cos(angle) + rng.normal()));
    points.push_back(static_cast<float>(20.0 * std::sin(angle) + rng.normal()));
  }
  std::size_t right = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const KMeans result = k_means(points, 2, 6, seed);
    expect_settled(points, 2, 6, result);
    bool same = true;
    for (std::size_t i = 0; i < 120; ++i) {
      same = same && result.group[i] == result.group[i % 6];
    }
    right += same && result.centres.size() == 12 ? 1 : 0;
  }
  EXPECT_GE(right, 8U);  // a k-means++ start seldom puts two centres into one group
}

TEST(KMeans, TheSameSeedGivesTheSameGroups) {
  Rng rng(4, Stream::kTest);
  const std::vector<float> points = draw_points(rng, 300, false);
  const KMeans one = k_means(points, 3, 7, 11);
  const KMeans two = k_means(points, 3, 7, 11);
  EXPECT_EQ(one.group, two.group);
  EXPECT_TRUE(plain::same_bits(one.centres, two.centres));
  EXPECT_NE(one.group, k_means(points, 3, 7, 12).group);
}

TEST(KMeans, OneGroupIsTheMeanAndAsManyAsPointsAreThePoints) {
  Rng rng(5, Stream::kTest);
  const std::vector<float> points = draw_points(rng, 40, false);
  const KMeans one = k_means(points, 2, 1, 1);
  EXPECT_EQ(std::ranges::count(one.group, 0U), 20);
  const KMeans all = k_means(points, 2, 20, 1);
  EXPECT_EQ(std::set(all.group.begin(), all.group.end()).size(), 20U);
  EXPECT_EQ(all.spread, 0.0);
}

TEST(KMeans, EqualPointsShareAGroup) {
  const std::vector<float> points{1, 1, 2, 2, 1, 1, 2, 2};
  const KMeans result = k_means(points, 1, 5, 1);
  EXPECT_EQ(result.centres.size(), 2U);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(result.centres[result.group[i]], points[i]);
  }
}

// In grids, and most of all in short ones, many points are equally far from two centres.
TEST(KMeans, TheShortcutsChangeNoBit) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, Stream::kTest);
    const auto dimension = static_cast<std::size_t>(1 + rng.below(4));
    const auto count = static_cast<std::size_t>(1 + rng.below(seed < 60 ? 200 : 12));
    const auto groups = static_cast<std::size_t>(1 + rng.below(std::min<std::size_t>(count, 40)));
    const auto most = static_cast<std::size_t>(1 + rng.below(30));
    const std::vector<float> points = draw_points(rng, count * dimension, rng.chance(0.5));
    expect_same(k_means(points, dimension, groups, seed, most),
                plain_k_means(points, dimension, groups, seed, most, 0));
  }
}

TEST(KMeans, TheBestOfSeveralStartsWins) {
  Rng rng(8, Stream::kTest);
  const std::vector<float> points = draw_points(rng, 600, false);
  std::set<double> spreads;
  KMeans best = plain_k_means(points, 3, 12, 5, 100, 0);
  for (std::size_t start = 0; start < 6; ++start) {
    const KMeans one = plain_k_means(points, 3, 12, 5, 100, start);
    spreads.insert(one.spread);
    if (one.spread < best.spread) {
      best = one;
    }
  }
  EXPECT_GT(spreads.size(), 3U);  // otherwise starts would not matter
  expect_same(k_means(points, 3, 12, 5, 100, 6), best);
}

TEST(KMeans, ThreadsChangeNoBit) {
  Rng rng(9, Stream::kTest);
  const std::vector<float> points = draw_points(rng, 3 * 2000, false);
  for (const std::size_t starts : {1, 3}) {
    const KMeans alone = k_means(points, 3, 30, 2, 100, starts);
    for (const std::size_t count : {1, 2, 8}) {
      ThreadPool threads(count);
      expect_same(k_means(points, 3, 30, 2, 100, starts, &threads), alone);
    }
  }
}

TEST(KMeans, StopsAfterItsIterations) {
  Rng rng(6, Stream::kTest);
  const std::vector<float> points = draw_points(rng, 2000, false);
  const KMeans few = k_means(points, 2, 20, 1, 2);
  EXPECT_EQ(few.iterations, 2U);
  EXPECT_LT(k_means(points, 2, 20, 1).spread, few.spread);
  EXPECT_EQ(few.group.size(), 1000U);
  EXPECT_LT(*std::ranges::max_element(few.group), 20U);
}

TEST(KMeans, RefusesWhatItCannotGroup) {
  const std::vector<float> points{1, 2, 3, 4};
  expect_error(ErrorKind::kUsage, "expected 1 to 2 groups of 2 points, got 3",
               [&] { k_means(points, 2, 3, 1); });
  expect_error(ErrorKind::kUsage, "got 0", [&] { k_means(points, 2, 0, 1); });
  expect_error(ErrorKind::kUsage, "0 points", [] { k_means({}, 2, 1, 1); });
  std::vector<float> bad = points;
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  expect_error(ErrorKind::kInput, "point 1, number 1 is nan", [&] { k_means(bad, 2, 1, 1); });
  bad[3] = std::numeric_limits<float>::infinity();
  expect_error(ErrorKind::kInput, "is inf", [&] { k_means(bad, 2, 1, 1); });
}

}  // namespace
}  // namespace mcnb::kmeans_test
