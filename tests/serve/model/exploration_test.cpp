// The exploration layer: probabilities are exact, and draws follow them.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/exploration.h"
#include "tests/serve/model_cases.h"

namespace mcnb::exploration_test {
namespace {

TEST(Exploration, TheFloorGivesEveryEligibleActionItsShare) {
  const std::vector<double> p = epsilon_floor({true, false, true, true, true}, 2, 0.2);
  EXPECT_DOUBLE_EQ(p[0], 0.05);
  EXPECT_EQ(p[1], 0.0);
  EXPECT_DOUBLE_EQ(p[2], 0.85);
  EXPECT_DOUBLE_EQ(std::accumulate(p.begin(), p.end(), 0.0), 1.0);
  EXPECT_EQ(epsilon_floor({true, true}, 1, 0.0), (std::vector<double>{0.0, 1.0}));
  EXPECT_EQ(epsilon_floor({true, false}, 0, 1.0), (std::vector<double>{1.0, 0.0}));
}

TEST(Exploration, ActionsOfProbabilityZeroAreNeverDrawn) {
  const std::vector<double> p{0.0, 1.0 - 1e-16, 0.0};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(draw_action(p, Rng(1, Stream::kTest, i)), 1U);
  }
}

// Over many events, every action is answered as often as its stored probability says.
TEST(Exploration, StoredPropensitiesAreTheFrequenciesOfTheAnswers) {
  ModelOptions options = cases::small_model();
  options.epsilon = 0.3;
  cases::Ledger ledger(options);
  constexpr int kEvents = 20'000;
  double expected = 0.0;
  double variance = 0.0;
  int happened = 0;
  ledger.add(Arrival{ledger->user_key("ann")});
  for (int i = 0; i < kEvents; ++i) {
    RankRequest request = cases::request_of(static_cast<std::uint64_t>(i % 50), "ann");
    request.event_id = "e" + std::to_string(i);
    const RankRequest* one = &request;
    const Decision decision = ledger->decide({&one, 1}, 1000).front();
    // Count how often the first action is answered.
    const double p = decision.actions[0].probability;
    expected += p;
    variance += p * (1.0 - p);
    happened += decision.chosen == 0 ? 1 : 0;
    // Inverse propensities: every action weighs one.
    EXPECT_GT(decision.actions[decision.chosen].probability, 0.0F);
  }
  EXPECT_LT(std::abs(happened - expected), 4.0 * std::sqrt(variance));
}

TEST(Exploration, EventsSurviveTheirBytesAndDamageIsRefused) {
  cases::Ledger ledger(cases::small_model());
  const Decision decision = ledger.rank(cases::request_of(1, "ann"));
  const std::string bytes = encode_event(decision);
  EXPECT_TRUE(encode_event(decode_event(EventKind::kDecision, bytes, 4, "test")) == bytes);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_THROW(decode_event(EventKind::kDecision, bytes.substr(0, cut), 4, "test"), Error);
  }
  EXPECT_THROW(decode_event(EventKind::kDecision, bytes + "x", 4, "test"), Error);
  EXPECT_THROW(decode_event(EventKind::kDecision, bytes, 5, "test"), Error);
  EXPECT_THROW(decode_event(static_cast<EventKind>(99), bytes, 4, "test"), Error);
}

}  // namespace
}  // namespace mcnb::exploration_test
