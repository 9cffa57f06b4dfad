#include "mcnb/bandit/exploration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mcnb/base/random.h"
#include "tests/expect_error.h"

namespace mcnb::exploration_test {
namespace {

std::vector<Score> scores_of(const std::vector<std::pair<double, double>>& values) {
  std::vector<Score> scores;
  for (const auto& [estimate, bonus] : values) {
    scores.push_back(Score(estimate, {{"bonus", bonus}}));
  }
  return scores;
}

std::vector<double> probabilities(const std::string& exploration,
                                  const std::vector<Score>& scores) {
  return choice_probabilities(parse_exploration(exploration), scores);
}

TEST(Exploration, IsWhatItsNameSays) {
  // The policy chooses the second arm, although the first has the highest estimate.
  const std::vector<Score> scores = scores_of({{0.5, 0.1}, {0.4, 0.4}, {0.1, 0.2}});
  using List = std::vector<double>;
  EXPECT_EQ(probabilities("own", scores), (List{0, 1, 0}));
  EXPECT_EQ(probabilities("greedy", scores), (List{1, 0, 0}));
  const List epsilon = probabilities("epsilon=0.3", scores);
  EXPECT_NEAR(epsilon[0], 0.1, 1e-15);
  EXPECT_NEAR(epsilon[1], 0.8, 1e-15);
  const List softmax = probabilities("softmax=0.2", scores);
  const double sum = std::exp(0.5 / 0.2) + std::exp(0.4 / 0.2) + std::exp(0.1 / 0.2);
  EXPECT_NEAR(softmax[0], std::exp(0.5 / 0.2) / sum, 1e-15);
  EXPECT_NEAR(softmax[2], std::exp(0.1 / 0.2) / sum, 1e-15);
  const List square = probabilities("squarecb=20", scores);
  EXPECT_NEAR(square[1], 1.0 / (3.0 + 20.0 * 0.1), 1e-15);
  EXPECT_NEAR(square[2], 1.0 / (3.0 + 20.0 * 0.4), 1e-15);
  EXPECT_NEAR(square[0], 1.0 - square[1] - square[2], 1e-15);
}

TEST(Exploration, ProbabilitiesAddUpAndLeaveOutWhatWasNotConsidered) {
  Rng rng(1, Stream::kTest);
  for (int i = 0; i < 300; ++i) {
    std::vector<Score> scores;
    for (std::size_t k = 0; k <= rng.below(6); ++k) {
      scores.push_back(Score(20.0 * rng.uniform() - 10.0, {{"bonus", rng.uniform()}}));
      scores.back().considered = k == 0 || rng.chance(0.7);
    }
    for (const char* text :
         {"own", "greedy", "epsilon=0.2", "softmax=0.01", "squarecb=0", "squarecb=1000"}) {
      const std::vector<double> found = probabilities(text, scores);
      EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), 1.0, 1e-12) << text;
      for (std::size_t k = 0; k < found.size(); ++k) {
        EXPECT_GE(found[k], 0.0);
        EXPECT_TRUE(scores[k].considered || found[k] == 0.0);
      }
    }
  }
}

TEST(Exploration, RefusesOtherNames) {
  for (const char* text :
       {"", "best", "epsilon", "epsilon=2", "softmax=0", "squarecb=-1", "epsilon=nan"}) {
    EXPECT_THROW(parse_exploration(text), Error) << text;
  }
  expect_error(ErrorKind::kUsage, "expected own, greedy, epsilon=E, softmax=T or squarecb=G",
               [] { parse_exploration("best"); });
}

}  // namespace
}  // namespace mcnb::exploration_test
