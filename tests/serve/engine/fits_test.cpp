// Fits of all rewards run beside the requests. Their beginnings and results are events of the log,
// so that the disk gives the state of the engine at any moment of a fit.

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "mcnb/serve/engine/fit_runner.h"
#include "tests/serve/engine/stepped_engine.h"

namespace mcnb::fits_test {
namespace {

using namespace cases;

constexpr std::uint64_t kFirstFit = 6;  // rewards
const EngineCore::Wait kAtOnce(0);

ModelOptions fitting_model() {
  ModelOptions options;
  options.dimension = 4;
  options.policy = parse_policy("hierarchical:first_fit=6:fit_growth=1.5:half_life=50");
  return options;
}

std::shared_ptr<ControlTask> create_task(const std::string& name) {
  return control_task(
      [name](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, fitting_model()); });
}

// An engine whose fits run only when the test says so.
class Fitting : public SteppedEngine {
 public:
  Fitting() {
    play(create_task("m"));
    play(create_task("other"));
  }

  // Steps until the task is answered, but runs no fit.
  void play(const Task& task) {
    bool answered = false;
    base_of(task).done = [&] { answered = true; };
    ASSERT_TRUE(core().submit(task));
    while (!answered) {
      step_without_fits();
    }
    ASSERT_FALSE(base_of(task).error.has_value()) << base_of(task).error->message;
  }
  void step_without_fits() {
    core().compute(kAtOnce);
    core().write(kAtOnce);
    core().acknowledge(kAtOnce);
    core().housekeep(kAtOnce);
  }
  void decide_and_reward(std::uint64_t count, const std::string& model = "m") {
    for (; count > 0; --count, ++events_) {
      const std::string user = "user-" + std::to_string(events_ % 3);
      play(rank_task(request_of(events_, user), model));
      play(reward_task(request_of(events_, "").event_id, static_cast<float>(events_ % 2), model));
    }
  }
  // Runs the fit under way and takes in its result.
  void finish_fit() {
    const std::uint64_t before = metrics.fits;
    core().fit(kAtOnce);
    step_without_fits();
    EXPECT_EQ(metrics.fits, before + 1);
  }
  std::map<std::string, std::uint64_t> states() {
    std::map<std::string, std::uint64_t> all;
    play(control_task([&](ControlTask&, ModelHost& host, std::int64_t) { all = host.digests(); }));
    return all;
  }
  // The disk gives the present state, from the latest snapshots and from the whole log.
  void expect_stored() {
    const auto now = states();
    crash();
    EXPECT_EQ(stored_digests(disk(), false), now);
    EXPECT_EQ(stored_digests(disk(), true), now);
    start();
    EXPECT_EQ(states(), now);
  }
  void snapshot() {
    play(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
      task.snapshots.push_back(host.snapshot("m"));
    }));
  }

 private:
  std::uint64_t events_ = 0;
};

TEST(Fits, ACrashAtAnyMomentOfAFitLosesNothing) {
  Fitting undisturbed;
  undisturbed.decide_and_reward(kFirstFit + 4);
  undisturbed.finish_fit();
  undisturbed.decide_and_reward(20);
  for (const bool with_snapshots : {false, true}) {
    Fitting engine;
    const auto disturb = [&] {
      if (with_snapshots) {
        engine.snapshot();
      }
      engine.expect_stored();
    };
    engine.decide_and_reward(kFirstFit);
    disturb();  // the fit has begun
    engine.decide_and_reward(4);
    disturb();
    engine.finish_fit();
    disturb();  // it has ended
    engine.decide_and_reward(1);
    disturb();  // rewards that came in between are being learned again
    engine.decide_and_reward(19);
    disturb();
    EXPECT_EQ(engine.states(), undisturbed.states());
  }
}

TEST(Fits, AForgottenUserEndsTheFitAndAnotherOneBegins) {
  Fitting engine;
  engine.decide_and_reward(kFirstFit + 2);
  engine.play(control_task([](ControlTask& task, ModelHost& host, std::int64_t time) {
    erase_afterwards(task, host.forget("m", "user-1", time));
  }));
  engine.core().fit(kAtOnce);
  engine.step_without_fits();
  EXPECT_EQ(engine.metrics.fits, 0U) << "the result knows the forgotten user";
  engine.expect_stored();
  engine.finish_fit();
  engine.decide_and_reward(10);
  engine.expect_stored();
}

TEST(Fits, AForgottenUserDropsAFitThatIsStillCatchingUp) {
  Fitting engine;
  engine.decide_and_reward(kFirstFit + 4);
  engine.finish_fit();
  engine.decide_and_reward(1);
  engine.play(control_task([](ControlTask& task, ModelHost& host, std::int64_t time) {
    erase_afterwards(task, host.forget("m", "user-1", time));
  }));
  engine.expect_stored();
  engine.finish_fit();  // of another one
  engine.decide_and_reward(10);
  engine.expect_stored();
}

TEST(Fits, AModelCanBeDeletedDuringItsFit) {
  Fitting engine;
  engine.decide_and_reward(kFirstFit);
  engine.decide_and_reward(kFirstFit, "other");
  engine.play(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
    const std::uint32_t id = host.report("m").id;
    host.remove("m");
    task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
    host.create("m", fitting_model());
  }));
  engine.core().fit(kAtOnce);
  engine.step_without_fits();
  EXPECT_EQ(engine.metrics.fits, 0U);
  engine.finish_fit();  // the other model's
  engine.expect_stored();
}

TEST(Fits, ModelsTakeTurns) {
  Fitting engine;
  for (int fit = 0; fit < 4; ++fit) {
    engine.decide_and_reward(30);
    engine.decide_and_reward(30, "other");
    engine.finish_fit();
  }
  engine.expect_stored();
  engine.crash();
  const std::unique_ptr<Storage> storage = engine.disk().open();
  for (const StoredModel& model : storage->log().models()) {
    int results = 0;
    storage->log().replay(model.id, 0, [&](const LogRow& row) {
      results += row.kind == EventKind::kFitResult ? 1 : 0;
    });
    EXPECT_EQ(results, 2) << model.name;
  }
}

TEST(Fits, AFailedFitEndsWithoutEffect) {
  struct Failing : BackgroundFit {
    void run() override { throw std::runtime_error("out of memory"); }
    std::string result() const override { return "a result"; }
  };
  FitRunner runner;
  EXPECT_TRUE(runner.idle());
  const auto fit = std::make_shared<Failing>();
  runner.start(fit);
  EXPECT_FALSE(runner.idle());
  EXPECT_FALSE(runner.take_finished().has_value());
  EXPECT_TRUE(runner.run(kAtOnce));
  const auto finished = runner.take_finished();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->fit, fit);
  EXPECT_EQ(finished->result, "");
  EXPECT_TRUE(runner.idle());
  runner.close();
  EXPECT_FALSE(runner.run(kAtOnce));
}

TEST(Fits, TheEngineWithThreadsRunsThemBesideTheRequests) {
  const TemporaryFolder folder;
  {
    RunningEngine engine(folder.path());
    engine.create("m", fitting_model());
    std::uint64_t event = 0;
    for (; engine.metrics.fits < 3; ++event) {
      ASSERT_LT(event, 5000U);
      engine.rank(request_of(event, "user-" + std::to_string(event % 3)));
      engine.reward(request_of(event, "").event_id, 1.0F);
    }
    EXPECT_GT(engine.metrics.last_fit_seconds, 0.0);
    EXPECT_GT(engine.metrics.longest_batch_seconds, 0.0);
    engine.engine().stop();
  }
  ThreadPool threads(2);
  const std::unique_ptr<Storage> storage = open_data_folder(folder.path(), StorageAccess::kOwn);
  ModelHost host(*storage, threads);
  EXPECT_EQ(host.recover().rows, 0U) << "there are snapshots";
  const auto state = host.digests();
  EXPECT_GT(host.recover(true).rows, 0U);
  EXPECT_EQ(host.digests(), state);
}

}  // namespace
}  // namespace mcnb::fits_test
