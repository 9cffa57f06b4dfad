// Challengers see what a model's policy decides and earns, learn from it, and never answer.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "mcnb/base/error.h"
#include "tests/expect_error.h"
#include "tests/serve/model_cases.h"

namespace mcnb::challengers_test {
namespace {

using cases::Ledger;
using cases::request_of;
using cases::small_model;

ModelOptions short_waits() {
  ModelOptions options = small_model();
  options.waiting_seconds = 2.0;
  options.default_reward = 0.25;
  options.epsilon = 0.3;
  return options;
}

ChallengerBegin begin_of(const std::string& name, const std::string& policy,
                         const OptionValues& others = {}, std::int64_t time = 0) {
  ChallengerOptions options;
  options.policy = parse_policy(policy);
  for (const auto& [option, text] : others) {
    set_option(options, option, text);
  }
  return {time, name, option_values(options)};
}

const ChallengerReport& challenger(const EstimateReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.challengers, name, &ChallengerReport::name);
  EXPECT_NE(found, report.challengers.end()) << name;
  return *found;
}

std::string bytes_of(const RunningValue& estimate) {
  std::ostringstream out;
  StateWriter writer(out, "test", {.kind = "test"});
  estimate.save(writer);
  writer.finish();
  return out.str();
}

// Decisions and rewards of several users: good answers are rewarded soon, others late or never.
void play(Ledger& ledger, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    const auto time = static_cast<std::int64_t>(1000 + 100 * i);
    RankRequest request = request_of(i, "user-" + std::to_string(i % 4));
    request.deferred = i % 9 == 0;
    request.eligible[i % 3] = i % 5 != 0;
    const Decision decision = ledger.rank(request, time);
    if (i % 2 == 0 && i % 9 != 0) {
      ledger.add(Activation{request.event_id, time});
    }
    if (decision.chosen == 1) {
      ledger.reward(request.event_id, 1.0F, "", time + 10);
    } else if (i % 7 == 0) {
      ledger.reward("event-" + std::to_string(i - std::min<std::uint64_t>(i, 5)), 0.5F, "",
                    time + 20);
    }
    if (const std::uint32_t due = ledger->due(time + 20, 8); due > 0) {
      ledger.add(Expiry{time + 20, due});
    }
  }
}

void end_all(Ledger& ledger) {
  const std::int64_t time = ledger->last_time() + 1'000'000;
  ledger.add(Expiry{time, ledger->due(time, 1'000'000)});
}

TEST(Challengers, OneThatEqualsTheModelsPolicyIsWorthTheSame) {
  Ledger ledger(short_waits());
  ledger.add(begin_of("twin", "mcnb:width=8:meta_steps=2:history_limit=1000"));
  play(ledger, 0, 200);
  end_all(ledger);
  ledger->learn_now();
  const EstimateReport report = ledger->estimates();
  const ChallengerReport& twin = challenger(report, "twin");
  EXPECT_GT(twin.estimate.count(), 150U);
  EXPECT_EQ(twin.estimate.mean_weight(), 1.0);
  EXPECT_TRUE(bytes_of(twin.estimate) == bytes_of(report.champion));
  EXPECT_TRUE(bytes_of(twin.champion) == bytes_of(report.champion));
  EXPECT_EQ(twin.learned, ledger->counts().learned);
}

// What the events of a log say about one decision, found by other means than the model's.
struct Counted {
  const Decision* decision = nullptr;
  std::optional<double> reward;
  bool active = true;
};

// The outcomes in the order of the decisions, as in docs/EVALUATION.md. For rewards that are
// learned as they come.
std::vector<Counted> outcomes_of(const std::vector<Event>& events, std::int64_t wait) {
  std::vector<Counted> all;
  std::map<std::string, std::size_t> index;
  for (const Event& event : events) {
    if (const auto* decision = std::get_if<Decision>(&event)) {
      index[decision->event_id] = all.size();
      all.push_back({decision, {}, !decision->deferred});
    } else if (const auto* reward = std::get_if<Reward>(&event)) {
      const auto found = index.find(reward->event_id);
      if (found != index.end()) {
        Counted& own = all[found->second];
        if (!own.reward && reward->time - own.decision->time < wait) {
          own.reward = static_cast<double>(reward->value);
        }
      }
    } else if (const auto* activation = std::get_if<Activation>(&event)) {
      const auto found = index.find(activation->event_id);
      if (found != index.end()) {
        all[found->second].active = true;
      }
    }
  }
  return all;
}

TEST(Challengers, EstimatesAreTheSumsOverAllDecisionsInTheirOrder) {
  const ModelOptions options = short_waits();
  Ledger ledger(options);
  play(ledger, 0, 40);
  ledger.add(begin_of("linear", "linucb", {}, ledger->last_time()));
  const std::uint64_t since = ledger->last_position();
  play(ledger, 40, 200);
  end_all(ledger);
  RunningValue champion;
  RunningValue random;
  RunningValue first;
  RunningValue linear;
  double sum = 0.0;
  std::uint64_t unactivated = 0;
  for (const Counted& one : outcomes_of(ledger.events(), 2000)) {
    const Decision& decision = *one.decision;
    if (!one.active) {
      ++unactivated;
      continue;
    }
    const double reward = one.reward.value_or(options.default_reward);
    sum += reward;
    const auto p = static_cast<double>(decision.actions[decision.chosen].probability);
    const auto count =
        static_cast<double>(std::ranges::count(decision.actions, true, &LoggedAction::eligible));
    const auto weight = [&](std::uint32_t preferred) {
      return static_cast<double>(static_cast<float>(
                 preferred == decision.chosen ? 1.0 - 0.3 * (count - 1.0) / count : 0.3 / count)) /
             p;
    };
    random.add(1.0 / (count * p), reward);
    const auto first_action = static_cast<std::uint32_t>(
        std::ranges::find(decision.actions, true, &LoggedAction::eligible) -
        decision.actions.begin());
    first.add(first_action == decision.chosen ? 1.0 / p : 0.0, reward);
    champion.add(weight(decision.preferred), reward);
    if (!decision.challenged.empty()) {
      linear.add(weight(decision.challenged.front()), reward);
    }
  }
  const EstimateReport report = ledger->estimates();
  EXPECT_TRUE(bytes_of(report.champion) == bytes_of(champion));
  EXPECT_TRUE(bytes_of(report.random) == bytes_of(random));
  EXPECT_TRUE(bytes_of(report.first) == bytes_of(first));
  EXPECT_TRUE(bytes_of(challenger(report, "linear").estimate) == bytes_of(linear));
  EXPECT_EQ(challenger(report, "linear").since, since);
  EXPECT_EQ(report.counts.reward_sum, sum);
  EXPECT_EQ(report.counts.unactivated, unactivated);
  EXPECT_GT(unactivated, 5U);
  EXPECT_GT(linear.count(), 150U);
  EXPECT_LT(linear.count(), champion.count());
  EXPECT_EQ(report.uncounted, 0U);
}

TEST(Challengers, ARewardThatComesEarlyDoesNotCountEarly) {
  Ledger ledger(short_waits());
  ledger.rank(request_of(1, "ann"), 1000);
  ledger.rank(request_of(2, "ann"), 1100);
  ledger.reward("event-2", 1.0F, "", 1200);
  ledger.rank(request_of(3, "ann"), 1300);
  ledger.reward("event-1", 1.0F, "", 1400);
  EXPECT_EQ(ledger->estimates().counts.counted, 0U) << "no waiting time is over";
  EXPECT_EQ(ledger->estimates().uncounted, 3U);
  ledger.rank(request_of(4, "ann"), 3050);
  EXPECT_EQ(ledger->estimates().counts.counted, 1U);
  EXPECT_FALSE(ledger->outcomes_are_due(3100)) << "some other event may come";
  EXPECT_TRUE(ledger->outcomes_are_due(4100));
  ledger.add(Expiry{4100, 0});
  EXPECT_EQ(ledger->estimates().counts.counted, 2U) << "event 3 has not ended, so 4 waits, too";
  EXPECT_EQ(ledger->estimates().counts.reward_sum, 2.0);
  ledger.add(Expiry{9000, 2});
  EXPECT_EQ(ledger->estimates().counts.counted, 4U);
  EXPECT_EQ(ledger->estimates().counts.reward_sum, 2.5);
}

TEST(Challengers, RewardsCountWhileNothingIsLearned) {
  ModelOptions options = short_waits();
  options.mode = ModelMode::kLogging;
  Ledger ledger(options);
  ledger.add(begin_of("linear", "linucb"));
  play(ledger, 0, 60);
  end_all(ledger);
  const EstimateReport report = ledger->estimates();
  EXPECT_EQ(report.champion.count(), 0U);
  EXPECT_EQ(challenger(report, "linear").learned, 0U);
  EXPECT_GT(report.counts.counted, 40U);
  EXPECT_EQ(report.first.mean_weight(), 1.0) << "the first action is what answered";
  EXPECT_DOUBLE_EQ(*report.first.value(),
                   report.counts.reward_sum / static_cast<double>(report.counts.counted));
}

// The ridge regression of a linear challenger, as its formulas say.
struct PlainRidge {
  std::array<std::array<double, 4>, 4> matrix{};
  std::array<double, 4> vector{};

  PlainRidge() {
    for (std::size_t i = 0; i < 4; ++i) {
      matrix[i][i] = 1.0;
    }
  }
  void add(const std::vector<float>& x, double reward, double weight) {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        matrix[i][j] += weight * static_cast<double>(x[i]) * static_cast<double>(x[j]);
      }
      vector[i] += weight * reward * static_cast<double>(x[i]);
    }
  }
  std::array<double, 4> solve() const {
    auto a = matrix;
    auto b = vector;
    for (std::size_t k = 0; k < 4; ++k) {
      for (std::size_t i = k + 1; i < 4; ++i) {
        const double factor = a[i][k] / a[k][k];
        for (std::size_t j = k; j < 4; ++j) {
          a[i][j] -= factor * a[k][j];
        }
        b[i] -= factor * b[k];
      }
    }
    for (std::size_t k = 4; k-- > 0;) {
      for (std::size_t j = k + 1; j < 4; ++j) {
        b[k] -= a[k][j] * b[j];
      }
      b[k] /= a[k][k];
    }
    return b;
  }
};

TEST(Challengers, LessonsWeighAsMuchAsTheOptionsSay) {
  for (const bool clipped : {false, true}) {
    Ledger ledger(short_waits());
    const OptionValues weighed{{"weights", "clipped"}, {"mostWeight", "2"}};
    ledger.add(begin_of("linear", "linucb:alpha=0", clipped ? weighed : OptionValues{}));
    play(ledger, 0, 120);
    end_all(ledger);
    PlainRidge ridge;
    double largest = 0.0;
    for (const Counted& one : outcomes_of(ledger.events(), 2000)) {
      if (one.active) {
        const Decision& decision = *one.decision;
        const auto count = static_cast<double>(
            std::ranges::count(decision.actions, true, &LoggedAction::eligible));
        const double weight =
            1.0 / (count * static_cast<double>(decision.actions[decision.chosen].probability));
        largest = std::max(largest, weight);
        const auto from = decision.features.begin() + 4 * decision.chosen;
        ridge.add({from, from + 4}, one.reward.value_or(0.25), clipped ? std::min(weight, 2.0) : 1);
      }
    }
    EXPECT_GT(largest, 3.0) << "weights are clipped in this test";
    ledger.add(Promotion{ledger->last_time(), "linear", ""});
    const RankRequest request = request_of(500, "ann");
    const Decision decision = ledger.rank(request, ledger->last_time());
    const std::array<double, 4> solution = ridge.solve();
    for (std::size_t action = 0; action < 3; ++action) {
      double expected = 0.0;
      for (std::size_t i = 0; i < 4; ++i) {
        expected += solution[i] * static_cast<double>(request.features[4 * action + i]);
      }
      EXPECT_NEAR(decision.actions[action].estimate, expected, 1e-5);
    }
  }
}

TEST(Challengers, WeightsNeedAPolicyThatCanWeigh) {
  Ledger ledger(short_waits());
  expect_error(ErrorKind::kUsage, "weights", [&] {
    ThreadPool threads(1);
    ChallengerOptions options;
    options.policy = parse_policy("mcnb");
    options.weights = LessonWeights::kClipped;
    Model::make_challenger(short_waits(), options, threads);
  });
}

TEST(Challengers, APromotedOneAnswersAndTheOtherMayStay) {
  Ledger ledger(short_waits());
  ledger.add(begin_of("linear", "linucb"));
  play(ledger, 0, 100);
  const std::uint64_t learned = ledger->version();
  ledger.add(Promotion{ledger->last_time(), "linear", "before"});
  EXPECT_EQ(ledger->options().policy.name, "linucb");
  EXPECT_FALSE(ledger->has_challenger("linear"));
  ASSERT_TRUE(ledger->has_challenger("before"));
  EXPECT_EQ(ledger->version(), learned);
  EXPECT_EQ(ledger->estimates().champion.count(), 0U) << "the new policy has answered nothing";
  play(ledger, 100, 100);
  end_all(ledger);
  const EstimateReport report = ledger->estimates();
  EXPECT_LE(report.champion.count(), 100U);
  EXPECT_GT(report.champion.count(), 80U);
  EXPECT_EQ(challenger(report, "before").options.policy.name, "mcnb");
  EXPECT_GT(challenger(report, "before").learned, 50U);
  // Back again: what the first policy learned meanwhile is not lost.
  ledger.add(Promotion{ledger->last_time(), "before", ""});
  EXPECT_EQ(ledger->options().policy.name, "mcnb");
  EXPECT_EQ(ledger->challenger_count(), 0U);
  EXPECT_TRUE(option_values(ledger->options()) == option_values(short_waits()));
}

// Events of every kind, with challengers that come and go.
void live(Ledger& ledger, std::uint64_t seed) {
  constexpr std::array<const char*, 4> kPolicies{
      "linucb", "mcnb:width=8:meta_steps=2", "linucb:users=each",
      "hierarchical:first_fit=5:fit_growth=1.01:features=raw"};
  Rng rng(seed, Stream::kTest);
  for (std::uint64_t round = 0; round < 60; ++round) {
    play(ledger, 10 * round, 10);
    const std::int64_t time = ledger->last_time();
    const std::string name = "c" + std::to_string(rng.below(4));
    const bool there = ledger->has_challenger(name);
    if (!there && rng.chance(0.5)) {
      ledger.add(begin_of(name, kPolicies[rng.below(4)], {}, time));
    } else if (there && rng.chance(0.2)) {
      ledger.add(ChallengerEnd{time, name});
    } else if (there && rng.chance(0.3)) {
      ledger.add(Promotion{time, name, rng.chance(0.5) ? name : ""});
    }
    if (rng.chance(0.1)) {
      ledger.add(Forgetting{ledger->user_key("user-" + std::to_string(rng.below(4))), time});
    }
    ledger->learn_now();
    for (const Model::Fit& fit : ledger->fits_in_progress()) {
      fit.fit->run();
      ledger.add(FitResult{fit.fit->result(), fit.challenger});
    }
    if (const std::optional<std::string> due = ledger->due_fit()) {
      ledger.add(FitBegin{*due});
    }
  }
}

TEST(Challengers, ReplayAndSnapshotsGiveTheSameBits) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Ledger first(short_waits());
    live(first, seed);
    const std::vector<Event>& events = first.events();
    for (const EventKind kind : {EventKind::kChallengerBegin, EventKind::kChallengerEnd,
                                 EventKind::kPromotion, EventKind::kForgetting}) {
      EXPECT_TRUE(
          std::ranges::any_of(events, [&](const Event& event) { return kind_of(event) == kind; }));
    }
    EXPECT_TRUE(std::ranges::any_of(events, [](const Event& event) {
      const auto* fit = std::get_if<FitResult>(&event);
      return fit != nullptr && !fit->challenger.empty();
    }));
    for (const std::size_t threads : {std::size_t{1}, std::size_t{8}}) {
      Ledger again(short_waits(), threads);
      for (const Event& event : events) {
        again.add(decode_event(kind_of(event), encode_event(event), 4, "test"));
      }
      EXPECT_TRUE(again.state() == first.state());
    }
    for (const std::size_t cut : {events.size() / 3, events.size() / 2, events.size()}) {
      Ledger before(short_waits());
      for (std::size_t i = 0; i < cut; ++i) {
        before.add(events[i]);
      }
      ThreadPool threads(2);
      Model after(short_waits(), threads);
      std::istringstream bytes(before.state());
      StateReader reader(bytes, "test", kModelState);
      after.load(reader);
      reader.finish();
      for (std::size_t i = cut; i < events.size(); ++i) {
        after.apply(events[i], i + 1);
      }
      EXPECT_TRUE(state_bytes(after) == first.state()) << seed << ", " << cut;
    }
  }
}

TEST(Challengers, ForgetAUserAsTheModelDoes) {
  // The challenger learns what only ann knows; after that, whoever gets her learner is as new.
  const auto answer = [](bool forget, const std::string& user) {
    Ledger ledger(short_waits());
    ledger.add(begin_of("own", "mcnb:width=8:meta_steps=2"));
    for (std::uint64_t i = 0; i < 20; ++i) {
      ledger.rank(request_of(i, "ann"), 1000);
      ledger.reward("event-" + std::to_string(i), 1.0F);
    }
    if (forget) {
      ledger.add(Forgetting{ledger->user_key("ann"), 3000});
      EXPECT_EQ(ledger->estimates().uncounted, 0U);
    }
    ledger.add(Promotion{4000, "own", ""});
    return ledger.rank(request_of(100, user), 5000);
  };
  EXPECT_NE(answer(false, "ann").actions[0].estimate, answer(true, "ann").actions[0].estimate);
}

TEST(Challengers, AreAPartOfTheMemory) {
  Ledger ledger(short_waits());
  play(ledger, 0, 20);
  const std::size_t bytes = ledger->memory_bytes();
  const double decision = ledger->bytes_of_decision("zoe");
  const double seconds = ledger->seconds_of_arm();
  ledger.add(begin_of("wide", "mcnb:width=64"));
  EXPECT_GT(ledger->memory_bytes(), bytes + 4 * 64 * 5 * 2);
  EXPECT_GT(ledger->bytes_of_decision("zoe"), decision);
  EXPECT_GT(ledger->seconds_of_arm(), seconds);
}

TEST(Challengers, LargeDecisionsAskThemPartByPart) {
  Ledger ledger(short_waits());
  ledger.add(begin_of("linear", "linucb"));
  ledger.add(begin_of("whole", "random"));
  play(ledger, 0, 40);
  RankRequest request = request_of(900, "user-1");
  cases::add_actions(request, 90);
  request.eligible[4] = false;
  const RankRequest* one = &request;
  const std::int64_t time = ledger->last_time();
  const Decision whole = ledger->decide({&one, 1}, time).front();
  Model::PartedDecision parted = ledger->begin_parts(request);
  while (!ledger->score_part(parted, ledger->arms_apart())) {
  }
  const Decision again = ledger->finish_parts(parted, request, time);
  ASSERT_EQ(whole.challenged.size(), 2U);
  EXPECT_TRUE(encode_event(whole) == encode_event(again));
}

TEST(Challengers, EventsThatNoSoundLogHasAreRefused) {
  Ledger ledger(short_waits());
  EXPECT_THROW(ledger.add(ChallengerEnd{0, "nobody"}), Error);
  EXPECT_THROW(ledger.add(Promotion{0, "nobody", ""}), Error);
  for (int i = 0; i < 8; ++i) {
    ledger.add(begin_of("c" + std::to_string(i), "linucb"));
  }
  EXPECT_THROW(ledger.add(begin_of("c8", "linucb")), Error);
  EXPECT_THROW(ledger.add(begin_of("c0", "linucb")), Error);
  EXPECT_THROW(ledger.add(Promotion{0, "c0", "c1"}), Error);
  Decision decision = ledger.rank(request_of(1, "ann"));
  decision.event_id = "another";
  decision.challenged.pop_back();
  EXPECT_THROW(ledger.add(decision), Error);
}

TEST(Challengers, DamagedEventsAreRefused) {
  const auto refused = [](EventKind kind, const std::string& bytes) {
    EXPECT_THROW(decode_event(kind, bytes, 4, "test"), Error);
  };
  ChallengerBegin unknown{0, "a", {{"policy", "no such policy"}}};
  refused(EventKind::kChallengerBegin, encode_event(unknown));
  refused(EventKind::kChallengerBegin, encode_event(ChallengerBegin{0, "a", {}}));
  refused(EventKind::kChallengerBegin, encode_event(begin_of("no/name", "linucb")));
  refused(EventKind::kChallengerBegin,
          encode_event(ChallengerBegin{0, "a", {{"policy", "linucb"}, {"mostWeight", "nan"}}}));
  refused(EventKind::kChallengerEnd, encode_event(ChallengerEnd{0, ""}));
  refused(EventKind::kPromotion, encode_event(Promotion{0, "a", ".."}));
  refused(EventKind::kFitBegin, encode_event(FitBegin{"no/name"}));
  Ledger ledger(short_waits());
  ledger.add(begin_of("linear", "linucb"));
  Decision decision = ledger.rank(request_of(1, "ann"));
  const auto of = [&](std::vector<std::uint32_t> challenged) {
    decision.challenged = std::move(challenged);
    return encode_event(decision);
  };
  refused(EventKind::kDecision, of({3}));
  refused(EventKind::kDecision, of({0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_NO_THROW(decode_event(EventKind::kDecision, of({2}), 4, "test"));
}

}  // namespace
}  // namespace mcnb::challengers_test
