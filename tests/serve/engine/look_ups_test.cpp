// What people look up in the log and try on the models, beside those who decide.

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "mcnb/serve/http/handlers.h"
#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::look_ups_test {
namespace {

using namespace cases;

constexpr EngineCore::Wait kAtOnce(0);

// Tasks that note when they are answered, and with what.
class Asked {
 public:
  struct Answer {
    std::string who;
    std::string error;
  };

  // Returns false if the engine refuses the task at once.
  bool ask(SteppedEngine& engine, const std::string& who, const Task& task) {
    base_of(task).client = who;
    base_of(task).done = [this, who, base = &base_of(task)] {
      answers.push_back({who, base->error ? base->error->message : ""});
    };
    return engine.core().submit(task);
  }
  // A look-up, which also notes that it was done.
  bool look_up(SteppedEngine& engine, const std::string& who) {
    const auto task = control_task([this, who](ControlTask& own, ModelHost&, std::int64_t) {
      own.look_up = [this, who](Storage&) { looked.push_back(who); };
    });
    task->only_reads = true;
    return ask(engine, who, task);
  }
  std::size_t count(const std::string& who, bool refused) const {
    return static_cast<std::size_t>(std::ranges::count_if(answers, [&](const Answer& answer) {
      return answer.who == who && answer.error.empty() != refused;
    }));
  }

  std::vector<Answer> answers;
  std::vector<std::string> looked;
};

void compute_and_write(SteppedEngine& engine) {
  engine.core().compute(kAtOnce);
  engine.core().write(kAtOnce);
  engine.core().acknowledge(kAtOnce);
}

void create(SteppedEngine& engine) {
  engine.run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
}

TEST(LookUps, ThatPileUpHoldUpNobodyWhoDecides) {
  SteppedEngine engine;
  create(engine);
  Asked asked;
  // The housekeeping is busy with something large, and a client asks again and again.
  for (int i = 0; i < 6000; ++i) {
    ASSERT_TRUE(asked.look_up(engine, "curious"));
    compute_and_write(engine);
  }
  EXPECT_EQ(asked.looked.size(), 0U);
  EXPECT_GT(asked.count("curious", true), 5000U) << "what waits is bounded";
  ASSERT_TRUE(asked.ask(engine, "shop", rank_task(request_of(1, "ann"))));
  compute_and_write(engine);
  EXPECT_EQ(asked.count("shop", false), 1U);
  // Another client gets room, and its turn.
  ASSERT_TRUE(asked.look_up(engine, "guest"));
  compute_and_write(engine);
  for (int i = 0; i < 2; ++i) {
    engine.core().housekeep(kAtOnce);
  }
  EXPECT_EQ(asked.count("guest", false), 1U);
  EXPECT_EQ(asked.looked.size(), 2U);
}

TEST(LookUps, WaitForWhatTheServiceHasToDo) {
  SteppedEngine engine;
  create(engine);
  Asked asked;
  ASSERT_TRUE(asked.look_up(engine, "curious"));
  ASSERT_TRUE(
      asked.ask(engine, "admin", control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
                  task.snapshots.push_back(host.snapshot("m"));
                })));
  compute_and_write(engine);
  engine.core().housekeep(kAtOnce);
  ASSERT_EQ(asked.answers.size(), 2U);
  EXPECT_EQ(asked.answers[0].who, "admin");
  EXPECT_EQ(asked.answers[1].who, "curious");
}

TEST(LookUps, AreRefusedWhenTheyHaveWaitedTooLongOrTheServiceStops) {
  SteppedEngine engine;
  create(engine);
  Asked asked;
  ASSERT_TRUE(asked.look_up(engine, "curious"));
  compute_and_write(engine);
  engine.clock.advance(60'000);
  engine.core().housekeep(kAtOnce);
  ASSERT_EQ(asked.answers.size(), 1U);
  EXPECT_EQ(asked.answers[0].error, "the request has waited too long");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(asked.look_up(engine, "curious"));
  }
  compute_and_write(engine);
  engine.stop();
  EXPECT_EQ(asked.answers.size(), 6U) << "everybody is answered";
}

// Of fifty reads by one client, how many are done before the decision that another one asks for
// after them.
std::size_t reads_before_a_decision(SteppedEngine& engine, double seconds) {
  Asked asked;
  std::size_t done = 0;
  for (int i = 0; i < 50; ++i) {
    const auto task = control_task([&done](ControlTask&, ModelHost&, std::int64_t) { ++done; });
    task->only_reads = true;
    task->seconds = seconds;
    EXPECT_TRUE(asked.ask(engine, "curious", task));
  }
  EXPECT_TRUE(asked.ask(engine, "shop", rank_task(request_of(1, "ann"))));
  compute_and_write(engine);
  EXPECT_EQ(asked.count("shop", false), 1U);
  return done;
}

TEST(LookUps, TakeNoMoreThanTheirShareOfTheTime) {
  SteppedEngine engine;
  create(engine);
  EXPECT_LE(reads_before_a_decision(engine, 0.02), 1U);
}

TEST(LookUps, ListsOfManyModelsHaveTheirPrice) {
  SteppedEngine engine;
  create(engine);
  engine.run(control_task([](ControlTask&, ModelHost& host, std::int64_t) {
    ModelOptions options = small_model();
    options.policy = parse_policy("random");
    for (int i = 0; i < 300; ++i) {
      host.create("other-" + std::to_string(i), options);
    }
  }));
  EXPECT_LT(reads_before_a_decision(engine, 0.0), 10U);
}

// A hundred of one client's, as the API gives them to the engine, and a decision of another's.
TEST(LookUps, TriesOfManyActionsLetTheDecisionsOfOthersPass) {
  const TemporaryFolder folder;
  RunningEngine running(folder.path());
  running.create("m", small_model());
  RequestMetrics requests;
  const Handlers handlers(running.engine(), running.metrics, requests, "m", "", {}, {});
  std::string body = R"({"userId":"ann","actions":[)";
  for (int i = 0; i < 1000; ++i) {
    body += fmt::format(R"({}{{"id":"a{}"}})", i == 0 ? "" : ",", i);
  }
  body += "]}";
  constexpr std::size_t kTries = 100;
  std::atomic<std::size_t> tried{0};
  std::size_t tried_before = kTries;
  std::promise<void> all;
  std::promise<void> answered;
  const auto decision = rank_task(request_of(1, "bob"));
  decision->client = "shop";
  decision->done = [&] {
    tried_before = tried;
    answered.set_value();
  };
  std::vector<Reply> replies;
  // They wait together, the tries before the decision.
  const auto nothing = control_task([](ControlTask&, ModelHost&, std::int64_t) {});
  running.run_together({nothing}, [&] {
    for (std::size_t i = 0; i < kTries; ++i) {
      const Call call{.model = "m", .client = "curious", .body = body};
      replies.push_back(handlers.try_rank(call));
      EXPECT_TRUE(replies.back().start([&] {
        if (++tried == kTries) {
          all.set_value();
        }
      }));
    }
    EXPECT_TRUE(running.engine().submit(decision));
  });
  answered.get_future().wait();
  all.get_future().wait();
  EXPECT_FALSE(decision->error.has_value());
  EXPECT_LT(tried_before, kTries / 2);
  for (const Reply& reply : replies) {
    EXPECT_NE(reply.body().find("rewardActionId"), std::string::npos);
  }
}

TEST(LookUps, ASearchEndsAfterSoManyBytesOfRows) {
  MemoryDisk disk;
  const std::unique_ptr<Storage> storage = disk.open();
  // Rows of some 10 MB.
  Decision decision;
  decision.user_id = "ann";
  decision.features.assign(1000 * 2500, 0.5F);
  for (int i = 0; i < 1000; ++i) {
    decision.actions.push_back({.id = std::to_string(i), .eligible = true});
    decision.ranking.push_back(static_cast<std::uint32_t>(i));
  }
  Batch batch;
  batch.models.emplace_back(StoredModel{.id = 1, .name = "m"});
  for (std::uint64_t position = 1; position <= 20; ++position) {
    decision.event_id = "event-" + std::to_string(position);
    batch.rows.push_back({1, position, EventKind::kDecision, 1, 7, encode_event(decision)});
  }
  storage->log().commit(batch);
  const LogView view{.model = 1, .last_position = 20, .dimension = 2500};
  const auto found = latest_events(storage->log(), view, 50, 20'000);
  EXPECT_GE(found.size(), 6U);
  EXPECT_LE(found.size(), 7U);
  EXPECT_EQ(found.front().decision.event_id, "event-20");
}

}  // namespace
}  // namespace mcnb::look_ups_test
