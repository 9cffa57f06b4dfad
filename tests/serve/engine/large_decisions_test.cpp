// Decisions that are computed in parts, and what waits for them, on an engine without threads.

#include <gtest/gtest.h>

#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::large_decisions_test {
namespace {

using namespace cases;

constexpr EngineCore::Wait kAtOnce(0);

// A decision among so many actions is large, and is computed in some ten parts.
EngineOptions parted_options() {
  EngineOptions options = stepped_options();
  options.large_seconds = 30e-6;
  options.least_part_seconds = 3e-6;
  return options;
}

RankRequest many_actions(std::uint64_t number, const std::string& user, std::size_t actions = 60) {
  RankRequest request = request_of(number, user);
  request.actions.clear();
  request.features.clear();
  request.eligible.clear();
  Rng rng(2, Stream::kTest, number);
  for (std::size_t i = 0; i < actions; ++i) {
    request.actions.push_back("action-" + std::to_string(i));
    request.eligible.push_back(i % 7 != 3);
    for (int k = 0; k < 4; ++k) {
      request.features.push_back(static_cast<float>(rng.normal() * 0.4));
    }
  }
  return request;
}

// An engine whose users "ann" and "bob" have learners.
class Parted : public SteppedEngine {
 public:
  explicit Parted(const EngineOptions& options = parted_options()) : SteppedEngine(options) {
    create("m");
    create("other");
    for (std::uint64_t i = 0; i < 12; ++i) {
      run(rank_task(request_of(i, i % 2 == 0 ? "ann" : "bob")));
      run(reward_task(request_of(i, "").event_id, i % 3 == 0 ? 1.0F : 0.0F));
    }
  }

  void create(const std::string& name) {
    run(control_task(
        [&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, small_model()); }));
  }

  // Submits a task and counts its answers.
  template <class Own>
  std::shared_ptr<int> submit(const std::shared_ptr<Own>& task) {
    auto answers = std::make_shared<int>(0);
    task->done = [answers] { ++*answers; };
    EXPECT_TRUE(core().submit(task));
    return answers;
  }
  void compute_and_write() {
    core().compute(kAtOnce);
    core().write(kAtOnce);
    core().acknowledge(kAtOnce);
  }
};

TEST(LargeDecisions, HaveTheAnswerOfADecisionMadeAtOnce) {
  EngineOptions whole = parted_options();
  whole.large_seconds = 1e6;
  Parted parted;
  Parted at_once(whole);
  for (const std::size_t actions : {60U, 200U}) {
    const RankRequest request = many_actions(100 + actions, "ann", actions);
    const auto one = parted.run(rank_task(request));
    const auto same = at_once.run(rank_task(request));
    ASSERT_FALSE(one->error.has_value());
    EXPECT_TRUE(encode_event(one->decision) == encode_event(same->decision));
  }
  EXPECT_EQ(parted.metrics.large_decisions, 2U);
  EXPECT_EQ(at_once.metrics.large_decisions, 0U);
  EXPECT_EQ(parted.digests(), at_once.digests());
}

TEST(LargeDecisions, OthersPassWhileRewardsAndNewUsersOfTheModelWait) {
  Parted engine;
  const auto large = rank_task(many_actions(100, "ann", 900));
  const auto large_answers = engine.submit(large);
  engine.compute_and_write();  // its first part
  const auto small = rank_task(request_of(200, "bob"));
  const auto newcomer = rank_task(request_of(201, "carl"));
  const auto reward = reward_task(small->request.event_id, 1.0F);
  const auto elsewhere = rank_task(request_of(202, "carl"), "other");
  const auto small_answers = engine.submit(small);
  const auto newcomer_answers = engine.submit(newcomer);
  const auto elsewhere_answers = engine.submit(elsewhere);
  engine.compute_and_write();
  const auto reward_answers = engine.submit(reward);
  engine.compute_and_write();
  EXPECT_EQ(*large_answers, 0);
  EXPECT_EQ(*small_answers, 1);
  EXPECT_EQ(*elsewhere_answers, 1);
  EXPECT_EQ(*reward_answers, 0);
  EXPECT_EQ(*newcomer_answers, 0);
  for (int i = 0; i < 400 && *newcomer_answers == 0; ++i) {
    engine.compute_and_write();
  }
  EXPECT_EQ(*large_answers, 1);
  EXPECT_EQ(*reward_answers, 1);
  EXPECT_EQ(*newcomer_answers, 1);
  EXPECT_EQ(reward->outcome, RewardOutcome::kLearned);
  // The answer names the state that gave it: the small decision and this one saw the same.
  EXPECT_EQ(large->decision.model_version, small->decision.model_version);
  const auto state = engine.digests();
  engine.crash();
  EXPECT_EQ(stored_digests(engine.disk(), false), state);
  EXPECT_EQ(stored_digests(engine.disk(), true), state);
}

TEST(LargeDecisions, TheSameEventIsNotDecidedBesideItself) {
  Parted engine;
  const auto large = rank_task(many_actions(100, "ann"));
  const auto answers = engine.submit(large);
  engine.compute_and_write();
  RankRequest small = request_of(100, "ann");
  small.event_id = large->request.event_id;
  const auto again = engine.run(rank_task(small));
  ASSERT_TRUE(again->error.has_value());
  EXPECT_EQ(again->error->code, ErrorCode::kInProgress);
  while (*answers == 0) {
    engine.compute_and_write();
  }
  EXPECT_FALSE(large->error.has_value());
}

TEST(LargeDecisions, AFailedCommitEndsTheOneUnderWay) {
  Parted engine;
  const auto before = engine.digests();
  const auto large = rank_task(many_actions(100, "ann"));
  const auto answers = engine.submit(large);
  engine.compute_and_write();
  engine.disk().fail_always(StorageCall::kCommit);
  const auto small = engine.run(rank_task(request_of(200, "bob")));
  ASSERT_TRUE(small->error.has_value());
  while (*answers == 0) {
    engine.core().step();
  }
  ASSERT_TRUE(large->error.has_value());
  EXPECT_EQ(large->error->code, ErrorCode::kStorageFailed);
  engine.disk().heal();
  engine.clock.advance(1000);
  engine.core().step();
  EXPECT_EQ(engine.digests(), before);
  EXPECT_FALSE(engine.run(rank_task(many_actions(100, "ann")))->error.has_value());
}

TEST(LargeDecisions, WhileTheStorageFailsTheyAreRefused) {
  Parted engine;
  engine.disk().fail_always(StorageCall::kCommit);
  engine.disk().fail_always(StorageCall::kProbe);
  EXPECT_TRUE(engine.run(rank_task(request_of(200, "bob")))->error.has_value());
  const auto large = engine.run(rank_task(many_actions(100, "ann")));
  ASSERT_TRUE(large->error.has_value());
  EXPECT_EQ(large->error->code, ErrorCode::kStorageFailed);
  const auto waiting = engine.submit(rank_task(many_actions(101, "ann")));
  engine.stop();
  EXPECT_EQ(*waiting, 1);
}

TEST(LargeDecisions, OneThatTakesFarTooLongIsGivenUp) {
  Parted engine;
  const auto large = rank_task(many_actions(100, "ann", 900));
  const auto answers = engine.submit(large);
  engine.compute_and_write();
  engine.compute_and_write();
  EXPECT_EQ(*answers, 0);
  engine.clock.advance(31'000);
  engine.compute_and_write();
  EXPECT_EQ(*answers, 1);
  ASSERT_TRUE(large->error.has_value());
  EXPECT_EQ(large->error->status(), 503);
  EXPECT_FALSE(engine.run(reward_task("event-1", 1.0F))->error.has_value());
}

// A machine that is busy with other work: much time passes, in which little is computed.
class BusyClock : public ManualClock {
 public:
  double uptime() override { return uptime_ += 0.02; }
  double processor_seconds() override { return processor_ += 1e-7; }

 private:
  double uptime_ = 0.0;
  double processor_ = 0.0;
};

TEST(LargeDecisions, AreToldBySecondsOfTheProcessorNotOfTheClock) {
  MemoryDisk disk;
  BusyClock clock;
  Metrics metrics;
  EngineCore core(disk.open(), stepped_options(), clock, metrics);
  const auto run = [&](const Task& task) {
    bool answered = false;
    base_of(task).done = [&] { answered = true; };
    ASSERT_TRUE(core.submit(task));
    for (int i = 0; i < 100 && !answered; ++i) {
      core.step();
    }
    ASSERT_TRUE(answered);
  };
  run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
  const double before = core.reports().front().seconds_per_action;
  for (std::uint64_t i = 0; i < 50; ++i) {
    run(rank_task(request_of(i, "ann")));
  }
  EXPECT_LE(core.reports().front().seconds_per_action, before);
}

TEST(LargeDecisions, ClosingAnswersThemAndWhatWaitsForThem) {
  Parted engine;
  const auto first = engine.submit(rank_task(many_actions(100, "ann")));
  const auto second = engine.submit(rank_task(many_actions(101, "zoe")));
  engine.compute_and_write();
  const auto reward = engine.submit(reward_task("event-1", 1.0F));
  engine.stop();
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*second, 1);
  EXPECT_EQ(*reward, 1);
}

TEST(Waiting, ATaskThatWaitedTooLongIsRefusedAndNotComputed) {
  Parted engine;
  const std::uint64_t decided = engine.report("m").counts.decisions;
  const auto late = rank_task(request_of(300, "ann"));
  const auto large = rank_task(many_actions(301, "ann"));
  const auto late_answers = engine.submit(late);
  const auto large_answers = engine.submit(large);
  engine.clock.advance(11'000);
  for (int i = 0; i < 3; ++i) {
    engine.compute_and_write();
  }
  EXPECT_EQ(*late_answers, 1);
  EXPECT_EQ(*large_answers, 1);
  for (const auto& task : {late, large}) {
    ASSERT_TRUE(task->error.has_value());
    EXPECT_EQ(task->error->status(), 503);
  }
  EXPECT_EQ(engine.report("m").counts.decisions, decided);
  EXPECT_EQ(engine.metrics.waited_too_long, 2U);
}

TEST(LargeDecisions, HoldBackNoMoreThanTheQueueHolds) {
  EngineOptions options = parted_options();
  options.queue_limit = 50;
  Parted engine(options);
  const auto large_answers = engine.submit(rank_task(many_actions(100, "ann", 900)));
  engine.compute_and_write();  // its first part
  std::vector<std::shared_ptr<RewardTask>> rewards;
  for (std::uint64_t i = 0; i < 120; ++i) {
    rewards.push_back(reward_task("event-1", 1.0F));
    rewards.back()->client = i == 0 ? "modest" : "greedy";
    engine.submit(rewards.back());
    if (i % 20 == 19) {
      engine.compute_and_write();
    }
  }
  ASSERT_EQ(*large_answers, 0);
  const auto refused =
      std::ranges::count_if(rewards, [](const auto& reward) { return reward->error.has_value(); });
  EXPECT_EQ(refused, 70);
  EXPECT_FALSE(rewards.front()->error.has_value()) << "the one who has the most gives way";
  EXPECT_TRUE(rewards.back()->error.has_value());
  // Those that are held back are answered in time, too.
  engine.clock.advance(11'000);
  engine.compute_and_write();
  EXPECT_EQ(*large_answers, 0);
  ASSERT_TRUE(rewards.front()->error.has_value());
  EXPECT_EQ(rewards.front()->error->message, "the request has waited too long");
}

TEST(Waiting, ADecisionThatWouldTakeTooLongIsRefusedAtOnce) {
  EngineOptions options = parted_options();
  options.decision_seconds = 10e-6;
  Parted engine(options);
  const auto task = rank_task(many_actions(1, "ann"));
  EXPECT_FALSE(engine.core().submit(task));
  ASSERT_TRUE(task->error.has_value());
  EXPECT_EQ(task->error->code, ErrorCode::kTooCostly);
  EXPECT_NE(task->error->message.find("decision_seconds"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::large_decisions_test
