#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// Runs the fits of all models, one after the other. One thread starts fits and takes their results,
// one calls `run`; both can be the same.
class FitRunner {
 public:
  using Wait = std::chrono::milliseconds;

  struct Finished {
    std::shared_ptr<BackgroundFit> fit;
    std::string result;  // empty if the fit failed or was cancelled
    double seconds = 0.0;
  };

  // True if a fit could be started: there is none, or its result has been taken.
  bool idle() const;
  // Requires `idle`.
  void start(std::shared_ptr<BackgroundFit> fit);
  // Returns the result of the fit that was started, once it has ended.
  std::optional<Finished> take_finished();
  // No more fits will come, and nobody waits for the result of the one under way.
  void close();

  // Waits at most so long for a fit, and runs it. Returns false when the runner is closed.
  bool run(Wait wait);

 private:
  mutable std::mutex mutex_;
  std::condition_variable started_;
  std::shared_ptr<BackgroundFit> current_;
  bool waiting_ = false;  // `current_` has not been run
  std::optional<Finished> finished_;
  bool closed_ = false;
};

}  // namespace mcnb
