#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "mcnb/experiment/run/experiment.h"

namespace mcnb {

// Lets Ctrl-C and SIGTERM, by which batch systems end a job, stop the runs between two rounds. A
// second signal ends the program at once.
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

// A text that stands for the code that computes results, the compiler and the instruction set.
// Stored results with another text are not reused.
std::string this_program();

// Processor, threads and instruction set of this machine, for people.
std::string this_machine();

// Shows the progress of an experiment on standard error: as a bar on a terminal, else as a line
// every few seconds.
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
