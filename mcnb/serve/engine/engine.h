#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/serve/engine/engine_core.h"
#include "mcnb/serve/engine/engine_options.h"

namespace mcnb {

// Runs the models: the stages of EngineCore, each on a thread of its own. All methods are safe from
// any thread, except that `stop` must not be called by two at once.
class Engine {
 public:
  // Takes the data folder for itself, makes it if it is missing, and makes the models from it.
  // Borrows the clock and the metrics. Throws Error: kSystem if another engine has the folder or
  // the system refuses; kCorrupt.
  Engine(const EngineOptions& options, Clock& clock, Metrics& metrics);
  // Takes a storage instead of a folder.
  Engine(std::unique_ptr<Storage> storage, const EngineOptions& options, Clock& clock,
         Metrics& metrics);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns false if the task was not taken; its error says why.
  bool submit(const Task& task) { return core_.submit(task); }

  // False while the storage cannot be written.
  bool ready() const { return core_.ready(); }
  // The reason, for people; may be empty.
  std::string why_not_ready() const { return core_.why_not_ready(); }
  // What the models looked like about a second ago.
  std::vector<ModelReport> reports() const { return core_.reports(); }
  // The options of a model, or nullopt for an unknown one.
  std::optional<ModelOptions> options_of(const std::string& model) const {
    return core_.options_of(model);
  }
  // What is damaged in the log, as far as it was verified.
  std::vector<Damage> damage() const { return core_.damage(); }
  std::uint64_t log_bytes() const { return core_.log_bytes(); }
  double memory_limit() const { return core_.memory_limit(); }
  // Figures over time, for people.
  SeriesBook& series() { return core_.series(); }

  // For nodes: see EngineCore.
  void load_ahead(bool wanted) { core_.load_ahead(wanted); }
  bool loaded_ahead() const { return core_.loaded_ahead(); }
  void leave_without_snapshots() { core_.leave_without_snapshots(); }

  // Takes no more tasks, answers those it has, writes snapshots, ends the threads, and lets others
  // have the storage.
  void stop();

 private:
  EngineCore core_;
  std::thread housekeeping_;
  std::thread writer_;
  std::thread acknowledger_;
  std::thread fitter_;
  std::thread builder_;
  std::thread computer_;
};

}  // namespace mcnb
