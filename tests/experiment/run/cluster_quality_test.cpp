#include "mcnb/experiment/run/cluster_quality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mcnb/base/random.h"

namespace mcnb::cluster_quality_test {
namespace {

std::vector<UserId> members(const std::vector<bool>& in) {
  std::vector<UserId> users;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i]) {
      users.push_back(UserId{static_cast<std::uint32_t>(i)});
    }
  }
  return users;
}

// The adjusted Rand index by its definition: how often the two splits agree, over all pairs of
// users, compared with two random splits with parts of these sizes.
double adjusted_rand_by_pairs(const std::vector<bool>& a, const std::vector<bool>& b) {
  double together_in_both = 0.0;
  double together_in_a = 0.0;
  double together_in_b = 0.0;
  double pairs = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool in_a = a[i] == a[j];
      const bool in_b = b[i] == b[j];
      together_in_both += in_a && in_b ? 1 : 0;
      together_in_a += in_a ? 1 : 0;
      together_in_b += in_b ? 1 : 0;
      pairs += 1;
    }
  }
  const double expected = together_in_a * together_in_b / pairs;
  return (together_in_both - expected) / ((together_in_a + together_in_b) / 2 - expected);
}

TEST(ClusterQuality, MatchesCountingOverAllPairsOfUsers) {
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    Rng rng(1, Stream::kTest, trial);
    const std::size_t users = 3 + rng.below(20);
    std::vector<bool> found(users);
    std::vector<bool> truth(users);
    for (std::size_t i = 0; i < users; ++i) {
      found[i] = rng.chance(0.4);
      truth[i] = rng.chance(0.3) || (found[i] && rng.chance(0.5));
    }
    found[0] = truth[0] = true;   // the arm's user
    found[1] = truth[2] = false;  // so that neither split is trivial
    double both = 0.0;
    for (std::size_t i = 0; i < users; ++i) {
      both += found[i] && truth[i] ? 1 : 0;
    }
    const ClusterQuality quality = compare_clusters(members(found), members(truth), users);
    EXPECT_DOUBLE_EQ(quality.precision, both / static_cast<double>(members(found).size()));
    EXPECT_DOUBLE_EQ(quality.recall, both / static_cast<double>(members(truth).size()));
    EXPECT_NEAR(quality.adjusted_rand, adjusted_rand_by_pairs(found, truth), 1e-12);
  }
}

TEST(ClusterQuality, OfSpecialSplits) {
  const std::vector<UserId> all = members({true, true, true, true});
  const std::vector<UserId> half = members({true, true, false, false});
  EXPECT_EQ(compare_clusters(half, half, 4).adjusted_rand, 1.0);
  EXPECT_EQ(compare_clusters(all, all, 4).adjusted_rand, 1.0);
  EXPECT_EQ(compare_clusters(all, half, 4).adjusted_rand, 0.0);  // everyone in one cluster
  EXPECT_EQ(compare_clusters(all, half, 4).precision, 0.5);
  EXPECT_EQ(compare_clusters(all, half, 4).recall, 1.0);
  EXPECT_EQ(compare_clusters(members({true}), members({true}), 1).adjusted_rand, 1.0);
}

}  // namespace
}  // namespace mcnb::cluster_quality_test
