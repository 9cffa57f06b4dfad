// Several slots of one event: what each can show, with which probability, and what it earns.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/store_log.h"
#include "tests/evaluate/log_cases.h"
#include "tests/serve/http/refusal.h"
#include "tests/serve/running_engine.h"

namespace mcnb::slots_test {
namespace {

ModelOptions model() {
  ModelOptions options;
  options.dimension = 4;
  options.policy = parse_policy("linucb");
  options.epsilon = 0.3;
  options.waiting_seconds = 10.0;
  return options;
}

std::string body(const std::string& event, const std::string& slots, const char* more = "") {
  return R"({"eventId":")" + event + R"(","userId":"ann","contextFeatures":{"day":"Monday"},)" +
         R"("actions":[{"id":"a","features":{"kind":1}},{"id":"b","features":{"kind":2}},)" +
         R"({"id":"c","features":{"color":"red"}}],"slots":)" + slots + more + "}";
}

std::vector<RankRequest> read(const std::string& text, const ModelOptions& options = model(),
                              Dialect dialect = Dialect::kOwn) {
  return read_ranks(text, options, dialect);
}

std::string refusal(const std::string& slots) {
  return refusal_of([&] { read(body("e", slots)); });
}

std::shared_ptr<RankTask> task_of(const std::string& text, const ModelOptions& options = model()) {
  std::vector<RankRequest> requests = read(text, options);
  auto task = cases::rank_task(requests.front());
  task->further.assign(requests.begin() + 1, requests.end());
  return task;
}

std::vector<Decision> decisions_of(const RankTask& task) {
  EXPECT_FALSE(task.error) << task.error->message;
  std::vector<Decision> all{task.decision};
  all.insert(all.end(), task.further_decisions.begin(), task.further_decisions.end());
  return all;
}

const std::string& answer(const Decision& decision) { return decision.actions[decision.chosen].id; }

TEST(Slots, AreReadWithTheirFeaturesAndExclusions) {
  const auto slots = read(body("e", R"([{"id":"top","features":{"size":"large"}},
      {"id":"side","excludedActions":["b"],"baselineAction":"c"}])"));
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_EQ(slots[0].event_id, "e");
  EXPECT_NE(slots[1].event_id, "e");
  EXPECT_EQ(slots[1].slot.ids, (std::vector<std::string>{"top", "side"}));
  EXPECT_EQ(slots[1].slot.index, 1U);
  EXPECT_EQ(slots[1].actions, (std::vector<std::string>{"c", "a", "b"})) << "the baseline first";
  EXPECT_EQ(slots[1].eligible, (std::vector<bool>{true, true, false}));
  EXPECT_NE(slots[0].features, slots[1].features);
  const auto plain = read(body("e", "1"));
  const std::vector<float> moved{slots[1].features.begin() + 4, slots[1].features.end()};
  EXPECT_EQ(moved, (std::vector<float>{plain[0].features.begin(), plain[0].features.begin() + 8}))
      << "a slot without features changes none";
  EXPECT_EQ(read(body("e", "3")).back().slot.ids, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(Slots, ABadOneIsNamed) {
  EXPECT_EQ(refusal("0"), "400 bad_field slots");
  EXPECT_EQ(refusal("[]"), "400 bad_field slots");
  EXPECT_EQ(refusal(R"("two")"), "400 bad_field slots");
  EXPECT_EQ(refusal("101"), "400 bad_field slots");
  EXPECT_EQ(refusal("4"), "400 bad_field slots[3]") << "there are three actions";
  EXPECT_EQ(refusal("[1]"), "400 bad_field slots[0].id");
  EXPECT_EQ(refusal("[{}]"), "400 bad_field slots[0].id");
  EXPECT_EQ(refusal(R"([{"id":"x"},{"id":"x"}])"), "400 bad_field slots[1].id");
  EXPECT_EQ(refusal(R"([{"id":"x","extra":1}])"), "400 unknown_field slots[0].extra");
  EXPECT_EQ(refusal(R"([{"id":"x","excludedActions":["z"]}])"),
            "400 bad_field slots[0].excludedActions");
  EXPECT_EQ(refusal(R"([{"id":"x"},{"id":"y","excludedActions":["a","b"]}])"),
            "400 bad_field slots[1]")
      << "the first slot could take the action that is left";
  EXPECT_EQ(refusal(R"([{"id":"x","baselineAction":"z"}])"),
            "400 bad_field slots[0].baselineAction");
  EXPECT_EQ(refusal(R"([{"id":")" + std::string(256, 'x') + R"("}])"), "400 bad_field slots[0].id");
  EXPECT_EQ(refusal_of([] { read_rank(body("e", "2"), model(), Dialect::kOwn); }),
            "400 bad_field slots");
}

// The probability of each slot's answer, given those before it, from the rule alone.
TEST(Slots, EveryProbabilityIsExactGivenTheSlotsBefore) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  running.create("m", model());
  std::map<std::string, int> pairs;
  constexpr int kEvents = 3000;
  std::vector<Task> tasks;
  for (int i = 0; i < kEvents; ++i) {
    tasks.push_back(task_of(body("e" + std::to_string(i), "2")));
  }
  for (int i = 0; i < kEvents; i += 500) {
    running.run_together({tasks.begin() + i, tasks.begin() + i + 500});
  }
  std::map<std::string, double> expected;
  for (const Task& task : tasks) {
    const auto slots = decisions_of(*std::get<std::shared_ptr<RankTask>>(task));
    ASSERT_EQ(slots.size(), 2U);
    ASSERT_NE(answer(slots[0]), answer(slots[1]));
    double both = 1.0;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto left = static_cast<double>(3 - k);
      const bool preferred = slots[k].chosen == slots[k].preferred;
      const double probability = preferred ? 1.0 - 0.3 * (left - 1.0) / left : 0.3 / left;
      EXPECT_FLOAT_EQ(slots[k].actions[slots[k].chosen].probability,
                      static_cast<float>(probability));
      both *= probability;
    }
    ++pairs[answer(slots[0]) + answer(slots[1])];
    expected[answer(slots[0]) + answer(slots[1])] = both;
  }
  double sum = 0.0;
  for (const auto& [pair, probability] : expected) {
    const double deviation = std::sqrt(probability * (1.0 - probability) / kEvents);
    EXPECT_NEAR(pairs[pair] / double{kEvents}, probability, 5.0 * deviation) << pair;
    sum += probability;
  }
  EXPECT_EQ(expected.size(), 6U);
  EXPECT_NEAR(sum, 1.0, 1e-12) << "of all ordered pairs";
}

TEST(Slots, ARepeatedRequestGetsTheSameAnswerAndAnotherOneIsRefused) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  running.create("m", model());
  const std::string text = body("e", R"([{"id":"top"},{"id":"side"}])");
  const auto first = decisions_of(*running.run(task_of(text)));
  const std::uint64_t position = running.report().last_position;
  const auto again = decisions_of(*running.run(task_of(text)));
  EXPECT_EQ(running.report().last_position, position);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_TRUE(encode_event(first[k]) == encode_event(again[k]));
  }
  for (const char* slots : {R"([{"id":"top"}])", R"([{"id":"top"},{"id":"foot"}])"}) {
    const auto refused = running.run(task_of(body("e", slots)));
    ASSERT_TRUE(refused->error);
    EXPECT_EQ(refused->error->code, ErrorCode::kEventExists);
  }
  EXPECT_EQ(running.report().last_position, position);
}

TEST(Slots, EverySlotHasItsOwnReward) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  running.create("m", model());
  running.run(task_of(body("e", R"([{"id":"top"},{"id":"side"},{"id":"foot"}])")));
  const auto reward = [&](const std::string& slot, float value) {
    auto task = cases::reward_task("e", value);
    task->slot = slot;
    return running.run(task);
  };
  EXPECT_EQ(reward("side", 1.0F)->outcome, RewardOutcome::kLearned);
  EXPECT_EQ(reward("side", 1.0F)->outcome, RewardOutcome::kDuplicate);
  EXPECT_EQ(reward("top", 0.5F)->outcome, RewardOutcome::kLearned);
  EXPECT_EQ(running.reward("e", 0.5F)->outcome, RewardOutcome::kDuplicate) << "the first slot's";
  EXPECT_EQ(reward("attic", 1.0F)->error->code, ErrorCode::kUnknownSlot);
  EXPECT_EQ(running.report().counts.learned, 2U);
  running.clock.set(1'020'000);
  running.rank(cases::request_of(1, "zoe"));
  cases::wait_until([&] { return running.report().counts.defaults == 1; });
  std::vector<LoggedRound> rounds;
  read_store_log(folder.path(), {}, [&](const LoggedRound& one) { rounds.push_back(one); });
  ASSERT_EQ(rounds.size(), 3U);
  for (std::uint32_t k = 0; k < 3; ++k) {
    EXPECT_EQ(rounds[k].event, "e");
    EXPECT_EQ(rounds[k].slot, k);
    EXPECT_EQ(rounds[k].slots, 3U);
    EXPECT_EQ(rounds[k].reward, std::vector<double>({0.5, 1.0, 0.0})[k]);
    EXPECT_EQ(rounds[k].default_reward, k == 2);
    check_logged_round(rounds[k]);
  }
  EXPECT_EQ(rounds[1].slot_id, "side");
}

TEST(Slots, ActivationActivatesAll) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  running.create("m", model());
  running.run(task_of(body("e", "2", R"(,"deferActivation":true)")));
  EXPECT_EQ(running.reward("e", 1.0F)->outcome, RewardOutcome::kWaiting);
  auto activation = std::make_shared<ActivationTask>();
  activation->model = "m";
  activation->activation.event_id = "e";
  EXPECT_FALSE(running.run(activation)->error);
  EXPECT_EQ(running.report().counts.learned, 1U);
  auto second = cases::reward_task("e", 1.0F);
  second->slot = "2";
  EXPECT_EQ(running.run(second)->outcome, RewardOutcome::kLearned);
}

TEST(Slots, TheCallersActionIsShownWhereTheModelOnlyWatches) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  ModelOptions watching = model();
  watching.mode = ModelMode::kApprentice;
  running.create("m", watching);
  const auto slots = decisions_of(*running.run(
      task_of(body("e", R"([{"id":"1","baselineAction":"b"},{"id":"2","baselineAction":"b"},
                    {"id":"3","baselineAction":"c"}])"))));
  EXPECT_EQ(answer(slots[0]), "b");
  EXPECT_EQ(answer(slots[1]), "a") << "b is taken";
  EXPECT_EQ(answer(slots[2]), "c");
}

TEST(Slots, TheLogKeepsWhatTheCallerWroteIfItIsTold) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  ModelOptions keeping = model();
  keeping.keep_features = true;
  running.create("m", keeping);
  running.run(task_of(R"({"eventId":"e","userId":"ann","contextFeatures":[{"day":"Monday"},{"n":1}],
      "actions":[{"id":"a","features":[{"kind":1},{"new":true}]},{"id":"b"}],
      "slots":[{"id":"top","features":{"size":"large"}},{"id":"side","baselineAction":"b"}]})",
                      keeping));
  running.clock.set(1'020'000);
  running.rank(cases::request_of(1, "zoe"));
  std::vector<LoggedRound> rounds;
  read_store_log(folder.path(), {}, [&](const LoggedRound& one) { rounds.push_back(one); });
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].context, R"({"day":"Monday","n":1})");
  EXPECT_EQ(rounds[0].slot_features, R"({"size":"large"})");
  EXPECT_EQ(rounds[1].slot_features, "");
  for (const LoggedRound& round : rounds) {
    EXPECT_EQ(round.actions[0].id, "a") << "in the same order";
    EXPECT_EQ(round.actions[0].features, R"({"kind":1,"new":true})");
    EXPECT_EQ(round.actions[1].features, "");
  }
}

// The log alone makes the same model, with a challenger, rewards of single slots and an event that
// was activated late.
TEST(Slots, ReplayGivesTheSameBits) {
  const TemporaryFolder folder;
  {
    cases::RunningEngine running(folder.path());
    running.create("m", model());
    auto challenger = std::make_shared<CreateTask>();
    challenger->model = "m";
    challenger->challenger.emplace();
    challenger->challenger->name = "other";
    challenger->challenger->options.policy = parse_policy("epsilon-greedy");
    ASSERT_FALSE(running.run(challenger)->error) << challenger->error->message;
    for (int i = 0; i < 40; ++i) {
      const std::string event = "e" + std::to_string(i);
      const bool deferred = i % 5 == 0;
      const auto slots = decisions_of(
          *running.run(task_of(body(event, R"([{"id":"top","features":{"size":3}},{"id":"side"}])",
                                    deferred ? R"(,"deferActivation":true)" : ""))));
      EXPECT_EQ(slots[1].challenged.size(), 1U);
      auto reward = cases::reward_task(event, answer(slots[1]) == "a" ? 1.0F : 0.0F);
      reward->slot = "side";
      running.run(reward);
      if (deferred) {
        auto activation = std::make_shared<ActivationTask>();
        activation->model = "m";
        activation->activation.event_id = event;
        running.run(activation);
      }
    }
    EXPECT_EQ(running.report().counts.decisions, 80U);
  }
  const std::uint64_t before = cases::digest_of(folder.path());
  std::filesystem::remove_all(folder / "snapshots");
  EXPECT_EQ(cases::digest_of(folder.path()), before);
}

TEST(Slots, AnExportThatIsReadBackIsWhatWasLogged) {
  const TemporaryFolder folder;
  cases::RunningEngine running(folder.path());
  ModelOptions keeping = model();
  keeping.keep_features = true;
  running.create("m", keeping);
  for (int i = 0; i < 30; ++i) {
    const std::string event = "e" + std::to_string(i);
    running.run(task_of(
        body(event,
             R"([{"id":"top","features":{"size":"large"}},{"id":"side","excludedActions":["a"]}])"),
        keeping));
    auto reward = cases::reward_task(event, 0.5F);
    reward->slot = i % 3 == 0 ? "top" : "side";
    running.run(reward);
  }
  running.clock.set(1'020'000);
  running.rank(cases::request_of(1, "zoe"));
  std::vector<LoggedRound> rounds;
  read_store_log(folder.path(), {}, [&](const LoggedRound& one) { rounds.push_back(one); });
  ASSERT_EQ(rounds.size(), 60U);
  EXPECT_TRUE(cases::rounds_in(cases::written(LogFormat::kJsonLines, rounds)) == rounds);
  const auto again = cases::rounds_in(cases::written(LogFormat::kDsjson, rounds));
  ASSERT_EQ(again.size(), 60U);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(again[i].slot, i % 2);
    EXPECT_EQ(again[i].slots, 2U);
    EXPECT_EQ(again[i].reward.value_or(0.0), rounds[i].reward);
    EXPECT_EQ(again[i].actions[again[i].chosen].id, rounds[i].actions[rounds[i].chosen].id);
    EXPECT_EQ(again[i].probabilities[again[i].chosen], rounds[i].probabilities[rounds[i].chosen]);
  }
}

TEST(Slots, PersonalizerNeedsThemAndTakesUnknownNamesLightly) {
  const std::string text =
      R"({"eventId":"e","contextFeatures":null,"actions":[{"id":"a"},{"id":"b"}],
      "slots":[{"id":"top","baselineAction":"gone","excludedActions":["gone"],"features":null}]})";
  EXPECT_EQ(read(text, model(), Dialect::kPersonalizerSlots).front().slot.ids.size(), 1U);
  EXPECT_EQ(
      refusal_of([] { read(R"({"actions":[{"id":"a"}]})", model(), Dialect::kPersonalizerSlots); }),
      "400 bad_field slots");
  const auto rewards =
      read_slot_rewards(R"({"reward":[{"slotId":"top","value":1},{"slotId":"side","value":0.5}]})");
  ASSERT_EQ(rewards.size(), 2U);
  EXPECT_EQ(rewards[1].slot, "side");
  EXPECT_EQ(rewards[1].reward.value, 0.5F);
  EXPECT_EQ(refusal_of([] { read_slot_rewards(R"({"reward":[{"slotId":"a","value":2}]})"); }),
            "400 bad_field reward[0].value");
  EXPECT_EQ(refusal_of([] { read_slot_rewards(R"({"reward":[]})"); }), "400 bad_field reward");
  EXPECT_EQ(refusal_of([] { read_slot_rewards(R"({"reward":[{"value":1}]})"); }),
            "400 bad_field reward[0].slotId");
  EXPECT_EQ(refusal_of([] { read_reward(R"({"value":1,"slot":5})", Dialect::kOwn); }),
            "400 bad_field slot");
}

}  // namespace
}  // namespace mcnb::slots_test
