// The exploration layer: probabilities are exact, and draws follow them.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/exploration.h"
#include "tests/numeric/plain_network.h"
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
  RankRequest request = cases::request_of(1, "ann");
  request.original = {.context = R"({"hour":1})",
                      .actions = std::vector<std::string>(request.actions.size(), R"({"a":2})")};
  const Decision decision = ledger.rank(request);
  const std::string bytes = encode_event(decision);
  EXPECT_TRUE(encode_event(decode_event(EventKind::kDecision, bytes, 4, "test")) == bytes);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_THROW(decode_event(EventKind::kDecision, bytes.substr(0, cut), 4, "test"), Error);
  }
  EXPECT_THROW(decode_event(EventKind::kDecision, bytes + "x", 4, "test"), Error);
  EXPECT_THROW(decode_event(EventKind::kDecision, bytes, 5, "test"), Error);
  EXPECT_THROW(decode_event(static_cast<EventKind>(99), bytes, 4, "test"), Error);
}

// A decision as the service wrote it before score parts had names; MCNB still writes it like this.
std::string row_without_names() {
  ByteWriter row;
  row.write_string("event");
  row.write_string("ann");
  row.put(std::int64_t{1000});
  row.put(std::uint64_t{7});
  row.put(std::uint8_t{0});  // online
  row.put(std::uint8_t{1});  // deferred
  for (const std::uint32_t index : {0U, 0U, 0U}) {
    row.put(index);
  }
  row.put(std::uint32_t{1});
  row.write_string("tea");
  for (const float number : {1.0F, 0.875F, 0.5F, 0.25F, 0.125F}) {
    row.put(number);
  }
  row.put(std::uint32_t{3});
  row.put(std::uint8_t{1});
  row.put_all(std::span<const std::uint32_t>(std::vector<std::uint32_t>{0}));
  row.put_all(std::span<const float>(std::vector<float>{1.0F, 2.0F}));
  return row.take();
}

TEST(Exploration, DecisionsThatDoNotNameTheirScorePartsAreReadAsBefore) {
  const std::string bytes = row_without_names();
  const auto decision = std::get<Decision>(decode_event(EventKind::kDecision, bytes, 2, "test"));
  EXPECT_TRUE(decision.deferred);
  EXPECT_EQ(decision.part_names, (std::vector<std::string>{"meta", "user"}));
  EXPECT_EQ(decision.actions[0].value, 0.875F);
  EXPECT_EQ(decision.actions[0].estimate, 0.5F);
  EXPECT_EQ(decision.actions[0].parts[0], 0.25F);
  EXPECT_EQ(decision.actions[0].parts[1], 0.125F);
  EXPECT_EQ(decision.actions[0].cluster_size, 3U);
  EXPECT_TRUE(encode_event(decision) == bytes);
}

TEST(Exploration, DecisionsKeepTheNamesOfTheirScoreParts) {
  for (const char* policy : {"mcnb:width=10", "club", "random"}) {
    SCOPED_TRACE(policy);
    ModelOptions options = cases::small_model();
    options.policy = parse_policy(policy);
    cases::Ledger ledger(options);
    const Decision decision = ledger.rank(cases::request_of(1, "ann"));
    const auto again =
        std::get<Decision>(decode_event(EventKind::kDecision, encode_event(decision), 4, "test"));
    EXPECT_EQ(again.part_names, decision.part_names);
    EXPECT_FALSE(again.part_names.empty());
    for (std::size_t i = 0; i < decision.actions.size(); ++i) {
      const LoggedAction& action = again.actions[i];
      EXPECT_EQ(action.parts, decision.actions[i].parts);
      const float sum = std::accumulate(action.parts.begin(), action.parts.end(), action.estimate);
      EXPECT_NEAR(action.value, sum, 1e-6);
    }
  }
}

TEST(Exploration, TooManyScorePartsAreRefused) {
  std::string bytes = row_without_names();
  const std::size_t flags = 2 * 4 + 5 + 3 + 8 + 8 + 1;
  bytes[flags] = static_cast<char>(bytes[flags] | 2);
  ByteWriter names;
  names.put(std::uint32_t{Score::kMostParts + 1});
  bytes.insert(flags + 1 + 3 * 4, names.take());
  plain::expect_error(ErrorKind::kCorrupt, "more parts than it can have",
                      [&] { decode_event(EventKind::kDecision, bytes, 2, "test"); });
}

}  // namespace
}  // namespace mcnb::exploration_test
