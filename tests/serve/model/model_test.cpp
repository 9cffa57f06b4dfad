// A served model is determined by its log: what each event does, and how the log restores it.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "mcnb/base/error.h"
#include "tests/expect_error.h"
#include "tests/serve/model_cases.h"

namespace mcnb::model_test {
namespace {

using cases::Ledger;
using cases::request_of;
using cases::small_model;

ModelOptions with(const std::string& name, const std::string& value) {
  ModelOptions options = small_model();
  set_option(options, name, value);
  return options;
}

TEST(Model, ARewardIsLearnedOnceHoweverOftenItComes) {
  Ledger ledger(small_model());
  ledger.rank(request_of(1, "ann"));
  EXPECT_EQ(ledger.reward("event-1", 1.0F, "r"), RewardOutcome::kLearned);
  const std::string after_one = ledger.state();
  EXPECT_EQ(ledger->version(), 1U);
  EXPECT_EQ(ledger->judge({"event-1", "r", 3000, 1.0F}), RewardOutcome::kDuplicate);
  EXPECT_EQ(ledger->judge({"event-1", "other", 3000, 1.0F}), RewardOutcome::kIgnored);
  EXPECT_EQ(ledger->judge({"event-1", "", 3000, 1.0F}), RewardOutcome::kIgnored);
  EXPECT_EQ(ledger->judge({"event-2", "r", 3000, 1.0F}), RewardOutcome::kUnknown);
  EXPECT_TRUE(ledger.state() == after_one);
}

TEST(Model, ARewardAfterTheWaitingTimeIsCountedButNotLearned) {
  ModelOptions options = with("waitingSeconds", "10");
  options.default_reward = 0.25;
  Ledger ledger(options);
  ledger.rank(request_of(1, "ann"), 1000);
  EXPECT_EQ(ledger->due(10'999, 100), 0U);
  EXPECT_EQ(ledger->due(11'000, 100), 1U);
  ledger.add(Expiry{11'000, 1});
  EXPECT_EQ(ledger->counts().defaults, 1U);
  EXPECT_EQ(ledger->version(), 1U);
  EXPECT_EQ(ledger.reward("event-1", 1.0F), RewardOutcome::kLate);
  EXPECT_EQ(ledger->counts().late, 1U);
  EXPECT_EQ(ledger->version(), 1U);
}

TEST(Model, ALateRewardThatComesAgainIsADuplicate) {
  Ledger ledger(with("aggregation", "sum"));
  ledger.rank(request_of(1, "ann"));
  EXPECT_EQ(ledger.reward("event-1", 0.5F, "in time"), RewardOutcome::kWaiting);
  ledger.add(Expiry{1'000'000, 1});
  EXPECT_EQ(ledger->judge({"event-1", "in time", 1'000'001, 0.5F}), RewardOutcome::kDuplicate);
  EXPECT_EQ(ledger.reward("event-1", 0.5F, "late", 1'000'001), RewardOutcome::kLate);
  EXPECT_EQ(ledger->judge({"event-1", "late", 1'000'002, 0.5F}), RewardOutcome::kDuplicate);
  EXPECT_EQ(ledger->counts().late, 1U);
}

TEST(Model, AnEventIdThatNobodyRemembersMayBeUsedAgain) {
  ModelOptions options = with("remembered", "1");
  Ledger ledger(options);
  const auto rank = [&](const char* event) {
    RankRequest request = request_of(1, "ann");
    request.event_id = event;
    ledger.rank(request);
  };
  rank("A");
  rank("B");
  ledger.reward("B", 1.0F);
  rank("C");
  ledger.reward("C", 1.0F);
  rank("D");
  rank("B");  // another decision than the first of this name
  ThreadPool threads(1);
  Model after(options, threads);
  std::istringstream bytes(ledger.state());
  StateReader reader(bytes, "test", kModelState);
  ASSERT_NO_THROW(after.load(reader));
  reader.finish();
  // Both models let the same events expire, in the same order.
  std::uint64_t position = after.last_position();
  for (int i = 0; i < 2; ++i) {
    ledger.add(Expiry{1'000'000, 1});
    after.apply(Expiry{1'000'000, 1}, ++position);
    EXPECT_TRUE(state_bytes(after) == ledger.state());
  }
  EXPECT_TRUE(ledger->is_waiting("B"));
  EXPECT_FALSE(ledger->is_waiting("D"));
}

// The state after one event with these rewards and the end of its waiting time.
std::string learned_from(const std::string& aggregation, const std::vector<float>& rewards,
                         ModelCounts* counts = nullptr) {
  Ledger ledger(with("aggregation", aggregation));
  ledger.rank(request_of(1, "ann"));
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    EXPECT_EQ(ledger.reward("event-1", rewards[i], "r" + std::to_string(i)),
              aggregation == "earliest"
                  ? (i == 0 ? RewardOutcome::kLearned : RewardOutcome::kIgnored)
                  : RewardOutcome::kWaiting);
  }
  ledger.add(Expiry{1'000'000, 1});
  if (counts != nullptr) {
    *counts = ledger->counts();
  }
  // Compare what the policies have learned, and ignore what differs between the models themselves.
  const RankRequest probe = request_of(9, "ann");
  const RankRequest* one = &probe;
  std::string text;
  const Decision decision = ledger->decide({&one, 1}, 2'000'000).front();
  for (const LoggedAction& action : decision.actions) {
    text += std::to_string(action.value) + " ";
  }
  return text;
}

TEST(Model, RewardsAreAggregatedAsTheModelSays) {
  const std::vector<float> two{0.25F, 0.75F};
  EXPECT_EQ(learned_from("average", two), learned_from("max", {0.5F}));
  EXPECT_EQ(learned_from("min", two), learned_from("max", {0.25F}));
  EXPECT_EQ(learned_from("max", two), learned_from("min", {0.75F}));
  EXPECT_EQ(learned_from("sum", {0.25F, 0.5F}), learned_from("max", {0.75F}));
  EXPECT_EQ(learned_from("earliest", two), learned_from("max", {0.25F}));
  EXPECT_NE(learned_from("max", two), learned_from("min", two));
}

TEST(Model, SumsAreClippedAndTheClippingIsCounted) {
  ModelCounts counts;
  EXPECT_EQ(learned_from("sum", {0.75F, 0.75F}, &counts), learned_from("max", {1.0F}));
  EXPECT_EQ(counts.clipped, 1U);
  EXPECT_EQ(counts.learned, 1U);
}

TEST(Model, SaysWhyThePolicyRefusedAReward) {
  ModelOptions options;
  options.dimension = 4;
  // Trainings leave the finite numbers.
  options.policy = parse_policy("neuucb-one:width=8:optimiser=sgd:learning_rate=1000");
  Ledger ledger(options);
  for (std::uint64_t i = 0; i < 300; ++i) {
    ledger.rank(request_of(i, "ann"));
  }
  EXPECT_EQ(ledger->last_refusal(), "");
  for (std::uint64_t i = 0; i < 300; ++i) {
    ledger.reward("event-" + std::to_string(i), 1.0F);
  }
  ledger.state();  // learns
  EXPECT_GT(ledger->counts().refused, 0U);
  EXPECT_NE(ledger->last_refusal().find("finite numbers"), std::string::npos)
      << ledger->last_refusal();
}

TEST(Model, ADeferredEventIsLearnedOnlyOnceActive) {
  Ledger ledger(small_model());
  RankRequest request = request_of(1, "ann");
  request.deferred = true;
  ledger.rank(request);
  EXPECT_EQ(ledger.reward("event-1", 1.0F, "r"), RewardOutcome::kWaiting);
  EXPECT_EQ(ledger->version(), 0U);
  ledger.add(Activation{"event-1", 3000});
  EXPECT_EQ(ledger->version(), 1U);
  request.event_id = "event-2";
  ledger.rank(request);
  ledger.add(Expiry{1'000'000, 1});
  EXPECT_EQ(ledger->version(), 1U);
  EXPECT_EQ(ledger->counts().unactivated, 1U);
}

TEST(Model, AnApprenticeAnswersTheFirstActionAndLearns) {
  Ledger ledger(with("mode", "apprentice"));
  RankRequest request = request_of(1, "ann");
  request.eligible[0] = false;
  const Decision decision = ledger.rank(request);
  EXPECT_EQ(decision.chosen, 1U);
  EXPECT_EQ(decision.actions[1].probability, 1.0F);
  EXPECT_EQ(ledger.reward("event-1", 1.0F), RewardOutcome::kLearned);
  ledger.add(SettingsChange{4000, {{"mode", "logging"}}});
  EXPECT_EQ(ledger.rank(request_of(2, "ann")).chosen, 0U);
  EXPECT_EQ(ledger.reward("event-2", 1.0F), RewardOutcome::kWaiting);
  ledger.add(Expiry{1'000'000, 1});
  EXPECT_EQ(ledger->version(), 1U);
}

TEST(Model, ExcludedActionsAreNeverChosenAndStandLast) {
  Ledger ledger(with("epsilon", "1"));
  for (std::uint64_t i = 0; i < 50; ++i) {
    RankRequest request = request_of(i, "ann");
    request.eligible[1] = false;
    const Decision decision = ledger.rank(request);
    EXPECT_NE(decision.chosen, 1U);
    EXPECT_EQ(decision.ranking.front(), decision.chosen);
    EXPECT_EQ(decision.ranking.back(), 1U);
    EXPECT_EQ(decision.actions[1].probability, 0.0F);
    EXPECT_FLOAT_EQ(decision.actions[0].probability + decision.actions[2].probability, 1.0F);
  }
}

TEST(Model, TheSameRequestAgainstTheSameStateGetsTheSameAnswer) {
  Ledger one(small_model());
  Ledger two(small_model());
  for (std::uint64_t i = 0; i < 30; ++i) {
    const RankRequest request = request_of(i, "user-" + std::to_string(i % 3));
    EXPECT_TRUE(encode_event(one.rank(request)) == encode_event(two.rank(request)));
    one.reward(request.event_id, static_cast<float>(i % 2));
    two.reward(request.event_id, static_cast<float>(i % 2));
  }
}

// Fits beside the requests, which end some time after they began.
void tend_fits(Ledger& ledger, Rng& rng) {
  ledger->learn_now();
  if (const std::shared_ptr<BackgroundFit> fit = ledger->fit_in_progress()) {
    if (rng.chance(0.1)) {
      fit->run();
      ledger.add(FitResult{rng.chance(0.9) ? fit->result() : ""});
    }
  } else if (ledger->fit_is_due()) {
    ledger.add(FitBegin{});
  }
}

// Random events of every kind.
void live(Ledger& ledger, std::uint64_t seed, std::uint64_t steps) {
  Rng rng(seed, Stream::kTest);
  std::uint64_t decided = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto time = static_cast<std::int64_t>(1000 + step * 100);
    const std::string event = "event-" + std::to_string(rng.below(decided + 1));
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2: {
        RankRequest request = request_of(decided++, "user-" + std::to_string(rng.below(7)));
        request.deferred = rng.chance(0.3);
        ledger.rank(request, time);
        break;
      }
      case 3:
      case 4:
        ledger.reward(event, static_cast<float>(rng.uniform()), "r", time);
        break;
      case 5:
        ledger.add(Activation{event, time});
        break;
      case 6:
        if (const std::uint32_t due = ledger->due(time, 3); due > 0) {
          ledger.add(Expiry{time, due});
        }
        break;
      default:
        if (rng.chance(0.2)) {
          ledger.add(Forgetting{ledger->user_key("user-" + std::to_string(rng.below(7))), time});
        }
    }
    tend_fits(ledger, rng);
  }
}

std::vector<ModelOptions> many_models() {
  ModelOptions sums = with("aggregation", "sum");
  sums.waiting_seconds = 2.0;
  ModelOptions grouped = small_model();
  grouped.groups = 3;
  grouped.waiting_seconds = 2.0;
  ModelOptions few = small_model();
  few.most_users = 4;
  few.most_pending = 5;
  few.remembered = 20;
  ModelOptions linear;
  linear.dimension = 4;
  linear.policy = parse_policy("linucb:users=each");
  ModelOptions clusters;
  clusters.dimension = 4;
  clusters.policy = parse_policy("club");
  ModelOptions fitting;
  fitting.dimension = 4;
  fitting.policy = parse_policy("hierarchical:first_fit=5:fit_growth=1.01:features=raw");
  fitting.waiting_seconds = 2.0;
  ModelOptions fading = fitting;
  fading.policy.options["half_life"] = "40";
  ModelOptions earlier = fading;
  earlier.fits_beside = false;
  return {sums, grouped, few, linear, clusters, fitting, fading, earlier};
}

TEST(Model, ReplayingTheLogGivesTheSameBitsForAnyNumberOfThreads) {
  for (const ModelOptions& options : many_models()) {
    Ledger first(options);
    live(first, 3, 600);
    EXPECT_GT(first->version(), 20U);
    for (const std::size_t threads : {std::size_t{1}, std::size_t{2}, std::size_t{8}}) {
      Ledger again(options, threads);
      for (const Event& event : first.events()) {
        // Encode and decode the events, as a restart does.
        again.add(decode_event(kind_of(event), encode_event(event), 4, "test"));
      }
      EXPECT_TRUE(again.state() == first.state()) << options.policy.name;
    }
  }
}

TEST(Model, FitsBeginAndEndAtPositionsOfTheLog) {
  const auto count = [](const Ledger& ledger, EventKind kind) {
    return std::ranges::count_if(ledger.events(),
                                 [&](const Event& event) { return kind_of(event) == kind; });
  };
  const std::vector<ModelOptions> models = many_models();
  Ledger fading(models[6]);
  live(fading, 3, 600);
  EXPECT_GT(count(fading, EventKind::kFitResult), 5);
  EXPECT_GT(count(fading, EventKind::kFitBegin), count(fading, EventKind::kFitResult))
      << "forgetting ends a fit without a result";
  Ledger earlier(models[7]);
  live(earlier, 3, 600);
  EXPECT_EQ(count(earlier, EventKind::kFitBegin), 0) << "it fits inside the rewards";
}

TEST(Model, StoredModelsFitTheirRewardsAsWhenTheyWereMade) {
  const ModelOptions made_now;
  EXPECT_TRUE(stored_model_options(option_values(made_now)).fits_beside);
  ModelOptions made_before;
  made_before.fits_beside = false;
  const OptionValues stored = option_values(made_before);
  EXPECT_FALSE(stored.contains("fits"));
  EXPECT_FALSE(stored_model_options(stored).fits_beside);
  ModelOptions asked;
  EXPECT_THROW(set_option(asked, "fits", "beside"), Error) << "callers cannot choose it";
  EXPECT_THROW(stored_model_options({{"fits", "elsewhere"}}), Error);
}

TEST(Model, ASnapshotAndTheRestOfTheLogGiveTheSameBits) {
  for (const ModelOptions& options : many_models()) {
    Ledger first(options);
    live(first, 4, 600);
    const std::vector<Event>& events = first.events();
    for (const std::size_t cut : {std::size_t{0}, events.size() / 3, events.size()}) {
      Ledger before(options);
      for (std::size_t i = 0; i < cut; ++i) {
        before.add(events[i]);
      }
      ThreadPool threads(2);
      Model after(options, threads);
      std::istringstream bytes(before.state());
      StateReader reader(bytes, "test", kModelState);
      after.load(reader);
      reader.finish();
      for (std::size_t i = cut; i < events.size(); ++i) {
        after.apply(events[i], i + 1);
      }
      EXPECT_TRUE(state_bytes(after) == first.state()) << options.policy.name;
    }
  }
}

TEST(Model, AStateOfOtherOptionsIsRefused) {
  Ledger ledger(small_model());
  ThreadPool threads(1);
  Model other(with("seed", "2"), threads);
  std::istringstream bytes(ledger.state());
  StateReader reader(bytes, "test", kModelState);
  EXPECT_THROW(other.load(reader), Error);
  std::istringstream again(ledger.state());
  StateReader of_unit(again, "test", kModelState);
  Model none(with("options.normalise", "none"), threads);
  expect_error(ErrorKind::kCorrupt, "it was saved with options.normalise = \"unit\"",
               [&] { none.load(of_unit); });
}

TEST(Model, AForgottenUserIsAsNew) {
  Ledger ledger(small_model());
  for (std::uint64_t i = 0; i < 10; ++i) {
    ledger.rank(request_of(i, i % 2 == 0 ? "ann" : "bob"));
    ledger.reward("event-" + std::to_string(i), 1.0F);
  }
  ledger.rank(request_of(10, "ann"));
  EXPECT_EQ(ledger->user_report("ann").lessons, 5U);
  ledger.add(Forgetting{ledger->user_key("ann"), 5000});
  EXPECT_FALSE(ledger->user_report("ann").known);
  EXPECT_TRUE(ledger->user_report("bob").known);
  EXPECT_FALSE(ledger->is_waiting("event-10"));
  // The next user gets the learner, which has kept nothing of ann.
  ledger.rank(request_of(11, "cat"));
  EXPECT_EQ(ledger->user_report("cat").learner, 0U);
  EXPECT_EQ(ledger->user_report("cat").lessons, 0U);
}

TEST(Model, UsersBeyondTheLimitShareTheLearnersThatAreThere) {
  Ledger ledger(with("mostUsers", "2"));
  for (std::uint64_t i = 0; i < 20; ++i) {
    ledger.rank(request_of(i, "user-" + std::to_string(i)));
    ledger.reward("event-" + std::to_string(i), 1.0F);
  }
  EXPECT_EQ(ledger->users().count(), 2U);
  EXPECT_EQ(ledger->version(), 20U);
}

TEST(Model, EventsThatNoSoundLogHasAreRefused) {
  Ledger ledger(small_model());
  const Decision decision = ledger.rank(request_of(1, "ann"));
  EXPECT_THROW(ledger.add(decision), Error);
  Decision stranger = decision;
  stranger.event_id = "another";
  stranger.user_id = "zoe";
  EXPECT_THROW(ledger.add(stranger), Error);
  EXPECT_THROW(ledger.add(Arrival{ledger->user_key("ann")}), Error);
  EXPECT_THROW(ledger.add(FitBegin{}), Error);
  EXPECT_THROW(ledger.add(FitResult{"scales"}), Error);
}

TEST(Model, AResultThatIsNoneOfTheFitIsRefused) {
  Ledger ledger(many_models()[5]);
  for (std::uint64_t i = 0; i < 5; ++i) {
    ledger.rank(request_of(i, "ann"));
    ledger.reward("event-" + std::to_string(i), 1.0F);
  }
  ledger.add(FitBegin{});
  EXPECT_THROW(ledger.add(FitBegin{}), Error);
  EXPECT_THROW(ledger.add(FitResult{"not a saved state"}), Error);
}

}  // namespace
}  // namespace mcnb::model_test
