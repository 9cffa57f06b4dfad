#include "mcnb/bandit/mcnb/cluster_finder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mcnb/bandit/mcnb/feedback_clusters.h"
#include "tests/numeric/plain_network.h"

namespace mcnb::cluster_finder_test {
namespace {

constexpr float kGap = 0.3F;
constexpr std::uint32_t kLearners = 30;

// Learners that all differ, and arms for some of them.
class ClusterFinderTest : public testing::Test {
 protected:
  ClusterFinderTest()
      : rng_(3, Stream::kTest), learners_(shape_, plain::draw_network(rng_, shape_)), threads_(3) {
    learners_.add_users(kLearners);
    for (std::uint32_t learner = 0; learner < kLearners; ++learner) {
      learners_.set_parameters(UserId{learner}, plain::draw_network(rng_, shape_));
    }
    for (std::uint32_t i = 0; i < 25; ++i) {
      features_.push_back(plain::draw(rng_, shape_.inputs));
    }
    for (std::uint32_t i = 0; i < features_.size(); ++i) {
      arms_.push_back({RoundId{1},
                       {.index = ArmIndex{i}, .features = {features_[i], 0}},
                       UserId{static_cast<std::uint32_t>(rng_.below(kLearners))}});
    }
  }

  // By the definition, from one estimate at a time.
  Cluster plain_cluster(const Candidate& arm) const {
    const auto estimate = [&](UserId learner) {
      GradientFactors factors;
      learners_.find_gradient(learner, arm.arm.features, factors);
      return static_cast<double>(factors.value);
    };
    Cluster cluster;
    for (std::uint32_t learner = 0; learner < kLearners; ++learner) {
      const double gap = std::abs(estimate(UserId{learner}) - estimate(arm.learner));
      EXPECT_GT(std::abs(gap - kGap), 1e-5) << "too near to the limit for this test";
      if (gap <= kGap) {
        cluster.push_back(UserId{learner});
      }
    }
    return cluster;
  }

  NetworkShape shape_{.inputs = 6, .width = 8};
  Rng rng_;
  NetworkPool learners_;
  ThreadPool threads_;
  std::vector<std::vector<float>> features_;
  std::vector<Candidate> arms_;
};

TEST_F(ClusterFinderTest, FindsTheLearnersWithinTheGap) {
  ClusterFinder finder(kGap);
  std::size_t proper = 0;
  for (int again = 0; again < 2; ++again) {
    const std::vector<Cluster> clusters = finder.find(threads_, learners_, arms_);
    ASSERT_EQ(clusters.size(), arms_.size());
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      EXPECT_EQ(clusters[i], plain_cluster(arms_[i]));
      proper += clusters[i].size() > 1 && clusters[i].size() < kLearners ? 1 : 0;
    }
  }
  EXPECT_GT(proper, arms_.size());
  EXPECT_TRUE(finder.find(threads_, learners_, {}).empty());
}

TEST_F(ClusterFinderTest, FeedbackClustersFollowTheLearners) {
  FeedbackClusters clusters(threads_, learners_, arms_, kGap);
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    EXPECT_EQ(clusters.find(i), plain_cluster(arms_[i])) << i;
    if (i % 3 != 2) {
      const UserId learner = arms_[i].learner;
      learners_.set_parameters(learner, plain::draw_network(rng_, shape_));
      clusters.note_change(learner);
    }
  }
}

TEST(FindCluster, IsEmptyIfTheOwnEstimateIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> estimates{0.5F, bad, 0.4F, bad};
    EXPECT_TRUE(find_cluster(estimates, UserId{1}, kGap).empty());
    EXPECT_EQ(find_cluster(estimates, UserId{0}, kGap), (Cluster{UserId{0}, UserId{2}}));
  }
}

TEST(ClusterFinder, AlwaysServesSomeArmsPerPass) {
  EXPECT_EQ(ClusterFinder::arms_per_pass(1), std::size_t{1} << 22);
  EXPECT_EQ(ClusterFinder::arms_per_pass(std::size_t{1} << 30), 32U);
}

}  // namespace
}  // namespace mcnb::cluster_finder_test
