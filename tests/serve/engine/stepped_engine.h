#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "mcnb/serve/engine/engine_core.h"
#include "tests/serve/running_engine.h"
#include "tests/serve/store/memory_storage.h"

// An engine without threads on a disk in memory. The test decides everything that happens.
namespace mcnb::cases {

// A clock that stands still until the test moves it, both for times and for intervals.
class ManualClock : public HandClock {
 public:
  double uptime() override { return static_cast<double>(now()) / 1000.0; }
  double processor_seconds() override { return uptime(); }
  void advance(std::int64_t milliseconds) { set(now() + milliseconds); }
};

// Options under which nothing depends on measured times: a snapshot is due every thousand rows.
inline EngineOptions stepped_options() {
  EngineOptions options;
  options.threads = 1;
  options.restart_seconds = -1.0;
  return options;
}

class SteppedEngine {
 public:
  explicit SteppedEngine(const EngineOptions& options = stepped_options()) : options_(options) {
    start();
  }

  MemoryDisk& disk() { return disk_; }
  EngineCore& core() { return *core_; }
  bool running() const { return core_ != nullptr; }

  // Starts the engine. Throws if the disk fails.
  void start() { core_ = std::make_unique<EngineCore>(disk_.open(), options_, clock, metrics); }
  // Ends the engine at once: nothing more is answered or written.
  void crash() { core_.reset(); }
  // Answers the waiting tasks, writes snapshots and ends the engine.
  void stop() {
    core_->close();
    while (core_->step()) {
      clock.advance(100);
    }
    core_.reset();
  }

  // Submits tasks together and steps until all of them are answered.
  void run_together(const std::vector<Task>& tasks) {
    std::size_t left = tasks.size();
    for (const Task& task : tasks) {
      base_of(task).done = [&left] { --left; };
      ASSERT_TRUE(core_->submit(task));
    }
    for (int step = 0; left > 0; ++step) {
      ASSERT_LT(step, 1000) << "a task was not answered";
      core_->step();
    }
  }
  template <class Own>
  std::shared_ptr<Own> run(std::shared_ptr<Own> task) {
    run_together({task});
    return task;
  }
  ModelReport report(const std::string& model) {
    ModelReport report;
    run(control_task(
        [&](ControlTask&, ModelHost& host, std::int64_t) { report = host.report(model); }));
    return report;
  }
  // The hash of the state of every model.
  std::map<std::string, std::uint64_t> digests() {
    std::map<std::string, std::uint64_t> all;
    run(control_task([&](ControlTask&, ModelHost& host, std::int64_t) { all = host.digests(); }));
    return all;
  }

  ManualClock clock;
  Metrics metrics;

 private:
  EngineOptions options_;
  MemoryDisk disk_;
  std::unique_ptr<EngineCore> core_;
};

// The hash of the state that is restored from the latest snapshots, or from the oldest base.
inline std::map<std::string, std::uint64_t> stored_digests(MemoryDisk& disk, bool from_base) {
  ThreadPool threads(1);
  const std::unique_ptr<Storage> storage = disk.open();
  ModelHost host(*storage, threads);
  host.recover(from_base);
  return host.digests();
}

}  // namespace mcnb::cases
