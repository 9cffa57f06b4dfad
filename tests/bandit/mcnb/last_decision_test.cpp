#include "mcnb/bandit/mcnb/last_decision.h"

#include <gtest/gtest.h>

namespace mcnb::last_decision_test {
namespace {

// Two arms of round 7, with indices 1 and 4.
class LastDecisionTest : public testing::Test {
 protected:
  LastDecisionTest() {
    arms_ = {{RoundId{7}, {.index = ArmIndex{1}, .user = UserId{0}, .features = {{x_}, 0}}, {}},
             {RoundId{7}, {.index = ArmIndex{4}, .user = UserId{2}, .features = {{y_}, 3}}, {}}};
    decision_.remember(arms_, {first_, second_});
  }

  // The members of the cluster that the decision hands over.
  std::optional<Cluster> take(RoundId round, const Arm& arm) {
    const std::optional<FoundCluster> taken = decision_.take(round, arm);
    return taken ? std::optional(taken->members) : std::nullopt;
  }

  std::vector<float> x_{1.0F, 2.0F};
  std::vector<float> y_{3.0F};
  const Cluster first_{UserId{0}, UserId{5}};
  const Cluster second_{UserId{2}};
  std::vector<Candidate> arms_;
  LastDecision decision_;
};

TEST_F(LastDecisionTest, HandsEachClusterOverOnce) {
  EXPECT_EQ(take(RoundId{7}, arms_[1].arm), second_);
  EXPECT_EQ(take(RoundId{7}, arms_[1].arm), std::nullopt);
  EXPECT_EQ(take(RoundId{7}, arms_[0].arm), first_);
}

TEST_F(LastDecisionTest, KnowsOnlyItsOwnArms) {
  Arm arm = arms_[0].arm;
  EXPECT_EQ(take(RoundId{8}, arm), std::nullopt);
  for (const std::uint32_t index : {0U, 2U, 4U, 5U}) {
    arm.index = ArmIndex{index};
    EXPECT_EQ(take(RoundId{7}, arm), std::nullopt) << index;
  }
  arm = arms_[0].arm;
  arm.user = UserId{1};
  EXPECT_EQ(take(RoundId{7}, arm), std::nullopt);
  arm = arms_[0].arm;
  arm.features.offset = 1;
  EXPECT_EQ(take(RoundId{7}, arm), std::nullopt);
  arm = arms_[0].arm;
  arm.features.values = y_;
  EXPECT_EQ(take(RoundId{7}, arm), std::nullopt);
  EXPECT_EQ(take(RoundId{7}, arms_[0].arm), first_);
}

TEST_F(LastDecisionTest, HasCopiesOfTheFeatures) {
  const Arm arm = arms_[0].arm;
  x_[0] = 9.0F;  // the arm now shows the new value, the decision keeps the old one
  EXPECT_EQ(take(RoundId{7}, arm), std::nullopt);
  x_[0] = 1.0F;
  EXPECT_EQ(take(RoundId{7}, arm), first_);
}

TEST_F(LastDecisionTest, KnowsNothingAfterClear) {
  decision_.clear();
  EXPECT_EQ(take(RoundId{7}, arms_[0].arm), std::nullopt);
  decision_.remember({&arms_[1], 1}, {first_});
  EXPECT_EQ(take(RoundId{7}, arms_[0].arm), std::nullopt);
  EXPECT_EQ(take(RoundId{7}, arms_[1].arm), first_);
}

}  // namespace
}  // namespace mcnb::last_decision_test
