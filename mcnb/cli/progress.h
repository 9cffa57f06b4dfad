#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "mcnb/experiment/experiment.h"

namespace mcnb {

// Ctrl-C, or SIGTERM, by which batch systems end a job: stop between two rounds. A second one ends
// the program at once.
class InterruptHandler {
 public:
  explicit InterruptHandler(RunControl& control);
  ~InterruptHandler();
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

 private:
  struct sigaction before_ {};
  struct sigaction before_term_ {};
};

// Stands for the code that computes results, and for how it was compiled: results of other code,
// or of another instruction set, are not ours.
std::string this_program();

// Its processor, threads and instruction set, for people.
std::string this_machine();

// "12 s", "3:05 min", "1:40 h".
std::string duration_text(double seconds);

// Shows on standard error how far an experiment is: a bar on a terminal, else now and then a line.
class ProgressDisplay {
 public:
  ProgressDisplay(const RunControl& control, const ExperimentProgress& progress);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

 private:
  void watch();
  void show() const;

  const RunControl& control_;
  const ExperimentProgress& progress_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace mcnb
