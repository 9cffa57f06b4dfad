// The engine in one thread: thousands of requests in an order that a seed decides, on a disk that
// fails and with crashes in between. The promises hold, and everything happens the same way twice.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "tests/long_tests.h"
#include "tests/sanitizers.h"
#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::simulation_test {
namespace {

using namespace cases;

ModelOptions waiting_model() {
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  return options;
}

// It fits its rewards often.
ModelOptions fitting_model() {
  ModelOptions options = waiting_model();
  options.policy = parse_policy("hierarchical:first_fit=3:fit_growth=1.01:half_life=80");
  return options;
}

// Every fifth event is one of the model that fits.
std::string model_of(std::uint64_t event) { return event % 5 == 4 ? "second" : "m"; }

struct Plan {
  std::uint64_t seed = 0;
  std::size_t rounds = 0;
  bool failures = false;  // of the disk, and crashes
  bool erasing = false;   // users are forgotten, the log is trimmed, a model is deleted
  double trouble = 1.0;   // how much more often than usual something fails
};

EngineOptions options_of(const Plan& plan) {
  EngineOptions options = stepped_options();
  // Decisions among many actions are computed in parts, of which each call has one.
  options.large_seconds = 30e-6;
  options.least_part_seconds = 4e-6;
  if (plan.erasing) {
    options.log_bytes = 150'000;
  }
  return options;
}

// Draws what happens next, and remembers what the engine has acknowledged.
class Simulation {
 public:
  explicit Simulation(const Plan& plan)
      : plan_(plan), rng_(plan.seed, Stream::kTest), engine_(options_of(plan)) {
    create("m", waiting_model());
    create("second", fitting_model());
  }

  void run() {
    for (std::size_t round = 0; round < plan_.rounds; ++round) {
      engine_.clock.advance(static_cast<std::int64_t>(rng_.below(200)));
      if (plan_.failures) {
        disturb();
      }
      submit_something();
      for (std::uint64_t stages = rng_.below(5); stages > 0; --stages) {
        run_stage();
      }
    }
    settle();
  }

  // Everything that was answered, in order, and the states at the end.
  std::vector<std::string> transcript;
  // Acknowledged decisions, as bytes, by the number of their event.
  std::map<std::uint64_t, std::string> decisions;
  std::uint64_t learned_surely = 0;   // rewards that were acknowledged as learned
  std::uint64_t learned_perhaps = 0;  // rewards with an outcome that the client does not know
  std::size_t restarts = 0;
  std::size_t refused = 0;
  std::size_t large = 0;  // acknowledged decisions that were computed in parts

  SteppedEngine& engine() { return engine_; }

 private:
  void create(const std::string& name, const ModelOptions& options) {
    const auto task = engine_.run(control_task(
        [&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, options); }));
    ASSERT_FALSE(task->error.has_value()) << task->error->message;
  }

  void run_stage() {
    const EngineCore::Wait at_once(0);
    switch (rng_.below(5)) {
      case 0:
        engine_.core().compute(at_once);
        break;
      case 1:
        engine_.core().write(at_once);
        break;
      case 2:
        engine_.core().fit(at_once);
        break;
      case 3:
        engine_.core().acknowledge(at_once);
        break;
      default:
        engine_.core().housekeep(at_once);
    }
  }

  void disturb() {
    if (rng_.chance(0.02 * plan_.trouble)) {
      engine_.disk().set_commit_failure(rng_.chance(0.5) ? CommitFailure::kBeforeStoring
                                                         : CommitFailure::kAfterStoring);
      engine_.disk().fail_call(1 + rng_.below(30));
    }
    if (rng_.chance(0.005)) {
      engine_.disk().fail_always(StorageCall::kCommit);
      engine_.disk().fail_always(StorageCall::kProbe);
    }
    if (rng_.chance(0.03)) {
      engine_.disk().heal();
    }
    if (rng_.chance(0.003 * plan_.trouble)) {
      crash();
    }
  }

  void crash() {
    engine_.crash();
    for (const auto& reward : rewards_under_way_) {
      learned_perhaps += reward.second;
    }
    rewards_under_way_.clear();
    engine_.disk().heal();
    engine_.start();
    ++restarts;
    transcript.emplace_back("crash");
  }

  void submit_something() {
    const std::uint64_t kind = rng_.below(plan_.erasing ? 102 : 100);
    if (kind < 50 || events_ == 0) {
      submit_rank(events_++);
    } else if (kind < 55) {
      submit_rank(rng_.below(events_));  // again
    } else if (kind < 95) {
      submit_reward(rng_.chance(0.8)
                        ? events_ - 1 - rng_.below(std::min<std::uint64_t>(events_, 50))
                        : rng_.below(events_));
    } else if (kind < 98) {
      submit(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
               task.snapshots.push_back(host.snapshot("m"));
             }),
             "snapshot");
    } else if (kind < 100) {
      auto task = std::make_shared<ActivationTask>();
      task->model = "m";
      task->activation.event_id = request_of(rng_.below(events_), "").event_id;
      submit(task, "activate");
    } else if (kind == 100) {
      const std::string user = "user-" + std::to_string(rng_.below(7));
      const std::string model = rng_.chance(0.5) ? "m" : "second";
      submit(control_task([user, model](ControlTask& task, ModelHost& host, std::int64_t time) {
               erase_afterwards(task, host.forget(model, user, time));
             }),
             "forget " + user);
    } else {
      submit(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
               const std::uint32_t id = host.report("second").id;
               host.remove("second");
               task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
               host.create("second", fitting_model());
             }),
             "make second anew");
    }
  }

  void submit_rank(std::uint64_t event) {
    RankRequest request = request_of(event, "user-" + std::to_string(event % 7));
    request.deferred = event % 11 == 0;
    if (event % 13 == 5) {
      add_actions(request, 60);
    }
    const auto task = rank_task(request, model_of(event));
    submit(task, "rank " + std::to_string(event), [this, event, own = task.get()] {
      large += own->large ? 1 : 0;
      const std::string bytes = encode_event(own->decision);
      transcript.back() += " " + own->decision.actions[own->decision.chosen].id;
      const auto known = decisions.emplace(event, bytes).first;
      EXPECT_TRUE(plan_.erasing || known->second == bytes) << event << " was decided twice";
    });
  }

  void submit_reward(std::uint64_t event) {
    const auto task =
        reward_task(request_of(event, "").event_id, event % 2 == 0 ? 1.0F : 0.0F, model_of(event));
    const bool counted = model_of(event) == "m";  // which is never deleted
    rewards_under_way_[task.get()] = counted ? 1 : 0;
    const auto forget_it = [this, own = task.get()] {
      const std::uint64_t count = rewards_under_way_.at(own);
      rewards_under_way_.erase(own);
      return count;
    };
    submit(
        task, "reward " + std::to_string(event),
        [this, forget_it, own = task.get()] {
          const std::uint64_t count = forget_it();
          transcript.back() += " " + std::to_string(static_cast<int>(own->outcome));
          learned_surely += own->outcome == RewardOutcome::kLearned ? count : 0;
        },
        [this, forget_it](const ServiceError& error) {
          const std::uint64_t count = forget_it();
          learned_perhaps += error.status() >= 500 ? count : 0;
        });
  }

  // `on_success` and `on_failure` are called when the task is answered.
  void submit(const Task& task, std::string name, std::function<void()> on_success = {},
              std::function<void(const ServiceError&)> on_failure = {}) {
    auto answered = std::make_shared<bool>(false);
    base_of(task).done = [this, base = &base_of(task), name = std::move(name), answered, on_success,
                          on_failure] {
      EXPECT_FALSE(*answered) << name << " was answered twice";
      *answered = true;
      const std::optional<ServiceError>& error = base->error;
      transcript.push_back(name + (error ? ": " + error->message : ""));
      if (!error && on_success) {
        on_success();
      } else if (error && on_failure) {
        on_failure(*error);
      }
      refused += error && error->status() == 503 ? 1 : 0;
    };
    base_of(task).client = "client-" + std::to_string(rng_.below(3));
    ASSERT_TRUE(engine_.core().submit(task));
    // Nothing waits forever: the queue stays short.
    for (int i = 0; rng_.chance(0.1) && i < 3; ++i) {
      engine_.core().step();
    }
  }

  // The disk works again, and everything that waits is answered.
  void settle() {
    engine_.disk().heal();
    for (int i = 0; i < 100; ++i) {
      engine_.clock.advance(100);
      engine_.core().step();
    }
    EXPECT_TRUE(engine_.core().ready());
    EXPECT_TRUE(rewards_under_way_.empty());
    for (const auto& [name, digest] : engine_.digests()) {
      transcript.push_back(name + " " + std::to_string(digest));
    }
  }

  Plan plan_;
  Rng rng_;
  SteppedEngine engine_;
  std::uint64_t events_ = 0;
  std::map<const RewardTask*, std::uint64_t> rewards_under_way_;
};

TEST(Simulation, EverythingHappensTheSameWayTwice) {
  const Plan plan{.seed = 3, .rounds = 3000, .failures = true, .erasing = true};
  Simulation first(plan);
  first.run();
  Simulation second(plan);
  second.run();
  EXPECT_EQ(first.transcript.size(), second.transcript.size());
  EXPECT_TRUE(first.transcript == second.transcript);
  EXPECT_GT(first.restarts, 2U);
  EXPECT_GT(first.engine().disk().failures(), 20U);
  EXPECT_GT(first.engine().metrics.fits, 2U);
  Simulation other({.seed = 2, .rounds = 100, .failures = true, .erasing = true});
  other.run();
  EXPECT_FALSE(other.transcript == first.transcript);
}

TEST(Simulation, WhatWasAcknowledgedSurvivesFailuresAndCrashes) {
  for (const std::uint64_t seed : {11, 12, 13}) {
    Simulation simulation({.seed = seed, .rounds = 2000, .failures = true});
    simulation.run();
    EXPECT_GT(simulation.refused, 20U);
    EXPECT_GT(simulation.decisions.size(), 500U);
    EXPECT_GT(simulation.large, 10U);
    SteppedEngine& engine = simulation.engine();
    const ModelReport report = engine.report("m");
    const std::uint64_t learned = report.counts.learned - report.counts.defaults;
    EXPECT_GE(learned, simulation.learned_surely);
    EXPECT_LE(learned, simulation.learned_surely + simulation.learned_perhaps);
    EXPECT_GT(simulation.learned_surely, 100U);
    for (const auto& [event, bytes] : simulation.decisions) {
      engine.run(control_task([&](ControlTask&, ModelHost& host, std::int64_t) {
        const auto found = host.look_up(model_of(event), request_of(event, "").event_id);
        EXPECT_TRUE(encode_event(found.decision) == bytes) << event;
      }));
    }
  }
}

TEST(Simulation, TheDiskGivesTheStateFromTheBaseFromSnapshotsAndAfterACrash) {
  for (const bool erasing : {false, true}) {
    Simulation simulation({.seed = 21, .rounds = 2500, .failures = true, .erasing = erasing});
    simulation.run();
    SteppedEngine& engine = simulation.engine();
    engine.digests();  // takes what the housekeeping still wants with it
    const auto state = engine.digests();
    engine.crash();
    EXPECT_EQ(stored_digests(engine.disk(), false), state);
    EXPECT_EQ(stored_digests(engine.disk(), true), state);
    engine.start();
    EXPECT_EQ(engine.digests(), state);
    engine.stop();
    EXPECT_EQ(stored_digests(engine.disk(), false), state);
  }
}

// What must be true after any simulation: what was acknowledged is there, each reward was learned
// once, and the disk gives the state from its base and from the latest snapshots.
void expect_promises_kept(Simulation& simulation, bool erasing) {
  SteppedEngine& engine = simulation.engine();
  const ModelCounts counts = engine.report("m").counts;
  const std::uint64_t learned = counts.learned - counts.defaults;
  EXPECT_GE(learned, simulation.learned_surely);
  EXPECT_LE(learned, simulation.learned_surely + simulation.learned_perhaps);
  for (const auto& [event, bytes] : simulation.decisions) {
    if (erasing) {
      break;  // events of forgotten users are gone
    }
    engine.run(control_task([&](ControlTask&, ModelHost& host, std::int64_t) {
      const auto found = host.look_up(model_of(event), request_of(event, "").event_id);
      EXPECT_TRUE(encode_event(found.decision) == bytes) << event;
    }));
  }
  engine.digests();  // takes what the housekeeping still wants with it
  const auto state = engine.digests();
  engine.crash();
  EXPECT_EQ(stored_digests(engine.disk(), false), state);
  EXPECT_EQ(stored_digests(engine.disk(), true), state);
}

// Search instead of luck: short simulations of many seeds, each with much trouble. The same seed
// always does the same, so a failing one can be run again alone: MCNB_TEST_SEED=SEED.
TEST(Simulation, ManyShortSimulationsKeepTheirPromises) {
  const std::uint64_t count =
      kSanitized ? 40 : static_cast<std::uint64_t>(repeats(1500, 1'000'000));
  std::uint64_t failures = 0;
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = test_seed(); seed < test_seed() + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("MCNB_TEST_SEED=" + std::to_string(seed));
    const bool erasing = seed % 2 == 0;
    Simulation simulation({.seed = seed,
                           .rounds = 30 + static_cast<std::size_t>(seed % 70),
                           .failures = true,
                           .erasing = erasing,
                           .trouble = 5.0});
    simulation.run();
    failures += simulation.engine().disk().failures();
    restarts += simulation.restarts;
    expect_promises_kept(simulation, erasing);
  }
  EXPECT_GT(failures, count);
  EXPECT_GT(restarts, count / 4);
}

// Plays a few requests while one call of the disk fails (0: none). Returns how many calls there
// were.
std::size_t play_with_failure(std::size_t failing_call, CommitFailure failure) {
  SteppedEngine engine;
  engine.run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
  engine.disk().set_commit_failure(failure);
  const std::size_t before = engine.disk().calls();
  engine.disk().fail_call(failing_call);
  std::uint64_t acknowledged = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    engine.clock.advance(300);
    acknowledged += engine.run(rank_task(request_of(i, "ann")))->error ? 0 : 1;
    engine.run(control_task([&](ControlTask& task, ModelHost& host, std::int64_t time) {
      if (i == 4) {
        erase_afterwards(task, host.forget("m", "bob", time));
      } else if (i % 4 == 3) {
        task.snapshots.push_back(host.snapshot("m"));
      }
    }));
  }
  const std::size_t calls = engine.disk().calls() - before;
  EXPECT_EQ(engine.disk().failures(), failing_call == 0 ? 0U : 1U);
  engine.disk().heal();
  engine.clock.advance(300);
  engine.core().step();
  EXPECT_TRUE(engine.core().ready());
  const std::uint64_t decisions = engine.report("m").counts.decisions;
  EXPECT_GE(decisions, acknowledged);
  EXPECT_LE(decisions, acknowledged + 1);
  const auto state = engine.digests();
  engine.crash();
  EXPECT_EQ(stored_digests(engine.disk(), false), state);
  EXPECT_EQ(stored_digests(engine.disk(), true), state);
  return calls;
}

TEST(Simulation, OneFailedCallOfAnyKindLosesNothing) {
  const std::size_t calls = play_with_failure(0, CommitFailure::kBeforeStoring);
  EXPECT_GT(calls, 50U);
  for (std::size_t call = 1; call <= calls; ++call) {
    SCOPED_TRACE(call);
    play_with_failure(call, CommitFailure::kBeforeStoring);
    play_with_failure(call, CommitFailure::kAfterStoring);
  }
}

// A failed batch also discards results that were computed before its failure was known.
TEST(Simulation, AFailedCommitTakesWhatWasComputedAfterItWithIt) {
  SteppedEngine engine;
  const EngineCore::Wait at_once(0);
  engine.run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
  const auto before = engine.digests();
  engine.disk().fail_always(StorageCall::kCommit);
  engine.disk().fail_always(StorageCall::kProbe);
  std::vector<std::shared_ptr<RankTask>> ranks;
  int answered = 0;
  const auto submit = [&](std::uint64_t event) {
    ranks.push_back(rank_task(request_of(event, "ann")));
    ranks.back()->done = [&] { ++answered; };
    ASSERT_TRUE(engine.core().submit(ranks.back()));
  };
  submit(1);
  engine.core().compute(at_once);
  submit(2);
  engine.core().compute(at_once);
  EXPECT_EQ(answered, 0);
  engine.core().write(at_once);
  EXPECT_EQ(answered, 1);
  EXPECT_TRUE(engine.core().ready());  // nobody has looked yet
  engine.core().compute(at_once);
  EXPECT_FALSE(engine.core().ready());
  // The disk works again, but the second batch depends on the first.
  engine.disk().heal();
  engine.core().write(at_once);
  EXPECT_EQ(answered, 2);
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->error.has_value());
    EXPECT_EQ(rank->error->code, ErrorCode::kStorageFailed);
  }
  submit(3);
  engine.core().step();
  EXPECT_TRUE(engine.core().ready());
  EXPECT_EQ(answered, 3);
  EXPECT_FALSE(ranks.back()->error.has_value());
  EXPECT_NE(engine.digests(), before);
  EXPECT_EQ(engine.report("m").counts.decisions, 1U);
}

TEST(Simulation, StoppingAnswersWhatWaitsAndWritesSnapshots) {
  SteppedEngine engine;
  engine.run(control_task(
      [](ControlTask&, ModelHost& host, std::int64_t) { host.create("m", small_model()); }));
  int answered = 0;
  std::vector<std::shared_ptr<RankTask>> ranks;
  for (std::uint64_t i = 0; i < 700; ++i) {  // more than one batch
    ranks.push_back(rank_task(request_of(i, "ann")));
    ranks.back()->done = [&] { ++answered; };
    ASSERT_TRUE(engine.core().submit(ranks.back()));
  }
  engine.stop();
  EXPECT_EQ(answered, 700);
  for (const auto& rank : ranks) {
    ASSERT_FALSE(rank->error.has_value()) << rank->error->message;
  }
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = engine.disk().open();
  ModelHost host(*storage, threads);
  EXPECT_EQ(host.recover().rows, 0U);
  EXPECT_EQ(host.report("m").counts.decisions, 700U);
}

// Tasks that the stepped engine and the one with threads get in the same groups.
std::vector<std::vector<Task>> groups_of_tasks() {
  Rng rng(31, Stream::kTest);
  std::vector<std::vector<Task>> groups;
  std::uint64_t events = 0;
  for (int group = 0; group < 60; ++group) {
    std::vector<Task> tasks;
    for (std::uint64_t i = 1 + rng.below(8); i > 0; --i) {
      if (events == 0 || rng.chance(0.5)) {
        tasks.emplace_back(rank_task(request_of(events, "user-" + std::to_string(events % 5))));
        ++events;
      } else {
        tasks.emplace_back(reward_task(request_of(rng.below(events), "").event_id, 1.0F));
      }
    }
    groups.push_back(std::move(tasks));
  }
  return groups;
}

TEST(Simulation, TheEngineWithThreadsGivesTheStateOfTheSteppedOne) {
  const auto create = [](ControlTask&, ModelHost& host, std::int64_t) {
    host.create("m", waiting_model());
  };
  const auto nothing = [](ControlTask&, ModelHost&, std::int64_t) {};
  SteppedEngine stepped;
  stepped.run(control_task(create));
  const TemporaryFolder folder;
  RunningEngine threaded(folder.path());
  threaded.control(create);
  std::int64_t time = 1'000'000;
  const auto groups = groups_of_tasks();
  const auto same_groups = groups_of_tasks();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    time += 1'500;  // makes waiting events expire now and then
    stepped.clock.set(time);
    threaded.clock.set(time);
    stepped.run(control_task(nothing));
    threaded.control(nothing);
    stepped.run_together(groups[i]);
    threaded.run_together(same_groups[i]);
    for (std::size_t k = 0; k < groups[i].size(); ++k) {
      const auto* rank = std::get_if<std::shared_ptr<RankTask>>(&groups[i][k]);
      if (rank != nullptr) {
        const auto& same = std::get<std::shared_ptr<RankTask>>(same_groups[i][k]);
        EXPECT_TRUE(encode_event((*rank)->decision) == encode_event(same->decision));
      } else {
        EXPECT_EQ(std::get<std::shared_ptr<RewardTask>>(groups[i][k])->outcome,
                  std::get<std::shared_ptr<RewardTask>>(same_groups[i][k])->outcome);
      }
    }
  }
  std::map<std::string, std::uint64_t> digests;
  threaded.control([&](ControlTask&, ModelHost& host, std::int64_t) { digests = host.digests(); });
  EXPECT_EQ(stepped.digests(), digests);
}

}  // namespace
}  // namespace mcnb::simulation_test
