// A storage that fails at any call: nothing acknowledged is lost, and nothing appears that was not
// asked for.

#include <gtest/gtest.h>

#include <set>

#include "mcnb/base/error.h"
#include "tests/serve/engine/stepped_engine.h"
#include "tests/serve/store/memory_storage.h"

namespace mcnb::failing_storage_test {
namespace {

using namespace cases;

constexpr int kEvents = 8;
constexpr const char* kLeaver = "somebody-who-leaves";

RankRequest request_number(std::uint64_t number) {
  return request_of(number, number % 4 == 3 ? kLeaver : "ann");
}

// What a client asked for, and what was acknowledged.
struct Notes {
  bool made = false;         // the model
  bool asked_leave = false;  // a user asked to be forgotten
  bool left = false;
  std::set<std::string> asked;
  std::map<std::string, std::string> decided;  // event -> the decision's bytes
  std::set<std::string> rewarded;
};

// A client of one model. Does what the engine does, in one thread: compute, commit, acknowledge;
// after a failure, recover.
class Client {
 public:
  explicit Client(MemoryDisk& disk)
      : threads_(1), storage_(disk.open()), host_(*storage_, threads_) {
    settle();
  }

  Notes play() {
    notes_.made = attempt([&] { host_.create("m", small_model()); });
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      decide_and_reward(i);
      if (i == kEvents / 2) {
        keep_snapshot(false);
      }
    }
    forget();
    return notes_;
  }

 private:
  // Restores the state from the disk, as the engine does after a failure.
  void settle() {
    for (int tries = 0; tries < 5; ++tries) {
      try {
        storage_->log().probe();
        host_.recover();
        return;
      } catch (const Error&) {
      }
    }
    FAIL() << "the storage does not come back";
  }

  // Returns true if the step and its commit succeeded.
  bool attempt(const std::function<void()>& step) {
    try {
      step();
      storage_->log().commit(host_.take_batch());
      return true;
    } catch (const std::exception&) {
      settle();
      return false;
    }
  }

  void decide_and_reward(std::uint64_t number) {
    const RankRequest request = request_number(number);
    notes_.asked.insert(request.event_id);
    std::optional<Decision> decision;
    const bool decided =
        attempt([&] { decision = host_.decide("m", {&request}, 1000).front().decision; });
    if (!decided || !decision) {
      return;
    }
    notes_.decided[request.event_id] = encode_event(*decision);
    if (attempt([&] { host_.reward("m", {request.event_id, "r", 2000, 1.0F}); })) {
      notes_.rewarded.insert(request.event_id);
    }
  }

  void keep_snapshot(bool alone) {
    try {
      const SnapshotJob job = host_.snapshot("m");
      storage_->snapshots().write(job.model, job.position, [&] { return job.state->next(); });
      if (alone) {
        storage_->snapshots().remove_before(job.model, job.position);
      }
      host_.snapshot_written(job.model, job.position, alone);
    } catch (const std::exception&) {
      host_.snapshot_failed(1);
    }
  }

  void forget() {
    notes_.asked_leave = true;
    std::vector<Erasure> erasures;
    if (!attempt([&] { erasures = host_.forget("m", kLeaver, 3000); })) {
      return;
    }
    keep_snapshot(true);
    try {
      for (const Erasure& erasure : erasures) {
        storage_->erase_user(erasure);
      }
      notes_.left = true;
    } catch (const Error&) {
      // The erasure stays recorded, so the engine finishes it after a restart.
    }
  }

  ThreadPool threads_;
  std::unique_ptr<Storage> storage_;
  ModelHost host_;
  Notes notes_;
};

// The events of a log, as the client knows them.
struct Stored {
  std::map<std::string, std::string> decisions;
  std::map<std::string, int> rewards;

  explicit Stored(LogStore& log) {
    log.replay(1, 0, [&](const LogRow& row) {
      const Event event = decode_event(row.kind, row.body, 4, "test");
      if (const auto* decision = std::get_if<Decision>(&event)) {
        EXPECT_TRUE(decisions.emplace(decision->event_id, row.body).second);
      } else if (const auto* reward = std::get_if<Reward>(&event)) {
        ++rewards[reward->event_id];
      }
    });
  }
};

// Checks that the log fits what the client was told. `exactly`: a commit that failed stored
// nothing, so that nothing unacknowledged may be there.
void check_log(LogStore& log, const Notes& notes, bool exactly) {
  Stored stored(log);
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    const RankRequest request = request_number(i);
    const std::string& event = request.event_id;
    const bool leavers = request.user_id == kLeaver;
    const auto told = notes.decided.find(event);
    if (leavers && notes.left) {
      EXPECT_FALSE(stored.decisions.contains(event)) << event;
    } else if (told != notes.decided.end() && !(leavers && notes.asked_leave)) {
      EXPECT_EQ(stored.decisions[event], told->second) << event;
      EXPECT_LE(stored.rewards[event], 1) << event;
      EXPECT_GE(stored.rewards[event], notes.rewarded.contains(event) ? 1 : 0) << event;
    }
    if (exactly && told == notes.decided.end()) {
      EXPECT_FALSE(stored.decisions.contains(event)) << event << " was not acknowledged";
    }
    if (exactly && !notes.rewarded.contains(event)) {
      EXPECT_EQ(stored.rewards[event], 0) << event << " was not acknowledged";
    }
  }
}

// The state after a restart must agree with what the client was told, too.
void check_restart(MemoryDisk& disk, const Notes& notes, bool exactly) {
  const std::unique_ptr<Storage> storage = disk.open();
  ThreadPool threads(1);
  ModelHost host(*storage, threads);
  host.recover(true);
  const auto from_base = host.digests();
  host.recover();
  EXPECT_EQ(host.digests(), from_base);
  if (storage->log().models().empty()) {
    EXPECT_FALSE(notes.made);
    return;
  }
  check_log(storage->log(), notes, exactly);
  const ModelCounts counts = host.report("m").counts;
  EXPECT_GE(counts.decisions, notes.decided.size());
  EXPECT_GE(counts.learned, notes.rewarded.size());
  if (exactly) {
    EXPECT_EQ(counts.decisions, notes.decided.size());
    EXPECT_EQ(counts.learned, notes.rewarded.size());
  }
}

// Lets the n-th call to the storage fail, for every n.
void fail_everywhere(CommitFailure failure) {
  std::size_t number = 0;
  bool failed = true;
  while (failed && !testing::Test::HasFailure()) {
    ++number;
    MemoryDisk disk;
    disk.set_commit_failure(failure);
    Notes notes;
    {
      Client client(disk);
      disk.fail_call(number);
      notes = client.play();
    }
    failed = disk.failures() > 0;
    disk.heal();
    SCOPED_TRACE("call " + std::to_string(number) + " failed");
    check_restart(disk, notes, failure == CommitFailure::kBeforeStoring);
    EXPECT_TRUE(failed || notes.decided.size() == kEvents);
  }
  EXPECT_GT(number, 25U);  // that many calls were tried
}

TEST(FailingStorage, EveryCallMayFailAndNothingAcknowledgedIsLost) {
  fail_everywhere(CommitFailure::kBeforeStoring);
}

TEST(FailingStorage, ACommitMayFailAfterTheDiskTookIt) {
  fail_everywhere(CommitFailure::kAfterStoring);
}

TEST(FailingStorage, TheEngineServesAgainOnceTheDiskDoes) {
  MemoryDisk disk;
  {
    RunningEngine running(disk.open());
    running.create("m", small_model());
    running.play(0, 3);
    disk.fail_always(StorageCall::kCommit);
    disk.fail_always(StorageCall::kProbe);
    const auto lost = running.rank(request_of(3, "ann"));
    ASSERT_TRUE(lost->error.has_value());
    EXPECT_EQ(lost->error->status(), 503);
    while (running.engine().ready()) {
      running.rank(request_of(4, "ann"));
    }
    disk.heal();
    while (!running.engine().ready()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    running.play(5, 8);
    EXPECT_EQ(running.report().counts.decisions, 6U);
    EXPECT_FALSE(running.snapshot()->error.has_value());
    EXPECT_FALSE(running.forget("user-0")->error.has_value());
  }
  RunningEngine again(disk.open());
  EXPECT_EQ(again.report().counts.decisions, 6U);
  EXPECT_EQ(again.report().counts.learned, 6U);
  EXPECT_EQ(again.report().counts.forgotten, 1U);
}

TEST(FailingStorage, AReadThatFailsIsTheTroubleOfThoseWhoNeedIt) {
  SteppedEngine engine;
  engine.run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
  ASSERT_FALSE(engine.run(rank_task(request_of(1, "ann")))->error.has_value());
  engine.disk().fail_always(StorageCall::kRead);
  const auto fresh = rank_task(request_of(2, "ann"));
  const auto again = rank_task(request_of(1, "ann"));
  const auto late = std::make_shared<ActivationTask>();
  late->model = "m";
  late->activation.event_id = request_of(3, "").event_id;
  const auto look = control_task([](ControlTask&, ModelHost& host, std::int64_t) {
    host.look_up("m", request_of(1, "").event_id);
  });
  const auto reward = reward_task(request_of(1, "").event_id, 1.0F);
  engine.run_together({fresh, again, late, look, reward});
  for (const Task& task : std::vector<Task>{fresh, again, late, look}) {
    ASSERT_TRUE(base_of(task).error.has_value());
    EXPECT_EQ(base_of(task).error->code, ErrorCode::kStorageFailed) << base_of(task).error->message;
  }
  EXPECT_FALSE(reward->error.has_value());
  EXPECT_EQ(reward->outcome, RewardOutcome::kLearned);
  // Every new event needs to read, so nobody should send any; when reading works again, it is
  // noticed without one.
  EXPECT_FALSE(engine.core().ready());
  EXPECT_FALSE(engine.core().why_not_ready().empty());
  engine.clock.advance(1000);
  engine.core().step();
  EXPECT_FALSE(engine.core().ready());
  engine.disk().heal();
  engine.clock.advance(1000);
  engine.core().step();
  EXPECT_TRUE(engine.core().ready());
  EXPECT_TRUE(engine.core().why_not_ready().empty());
  EXPECT_FALSE(engine.run(rank_task(request_of(2, "ann")))->error.has_value());
}

// A model is made beside the requests, and its id comes from the storage.
TEST(FailingStorage, AModelThatGetsNoIdIsRefused) {
  SteppedEngine engine;
  engine.disk().fail_always(StorageCall::kNewModel);
  const auto create = [] {
    auto task = std::make_shared<CreateTask>();
    task->model = "m";
    task->options = small_model();
    return task;
  };
  const auto refused = engine.run(create());
  ASSERT_TRUE(refused->error.has_value());
  EXPECT_EQ(refused->error->code, ErrorCode::kStorageFailed);
  engine.disk().heal();
  EXPECT_FALSE(engine.run(create())->error.has_value());
}

TEST(FailingStorage, AnEngineThatLostItsLeaseAnswersNobodyAsIfItHadStored) {
  MemoryDisk disk;
  {
    RunningEngine running(disk.open());
    running.create("m", small_model());
    running.play(0, 2);
    disk.take_away_lease();
    const auto lost = running.rank(request_of(2, "ann"));
    ASSERT_TRUE(lost->error.has_value());
    EXPECT_EQ(lost->error->status(), 503);
  }
}

}  // namespace
}  // namespace mcnb::failing_storage_test
