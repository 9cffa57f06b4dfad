#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "mcnb/logs/logged_round.h"

namespace mcnb {

// A log on the command line: a file, or the data folder of a service, and which part of it.
struct LogFlags {
  std::string path;
  std::string model;
  std::string from;
  std::string to;
  std::uint64_t skip_bad = 0;
};
void add_log_flags(CLI::App& command, LogFlags& flags);

// Visits the rounds that the flags choose. Returns what there was besides, for people: "10000 rows;
// left out: ...". Without `features`, the features of actions may be missing.
std::string read_log(const LogFlags& flags, bool features, const VisitRound& visit);

// Says now and then on standard error how far the reading of a log is: as a line that changes on a
// terminal, else as a line every few seconds.
class LogDisplay {
 public:
  // The log is read so many times.
  explicit LogDisplay(std::uint64_t passes);

  void begin_pass(std::uint64_t pass) { pass_ = pass; }
  // Call it after each round. `rounds`: in all passes so far.
  void show(std::uint64_t rounds);
  void end(std::uint64_t rounds);

 private:
  using Clock = std::chrono::steady_clock;

  void print(std::uint64_t rounds) const;

  std::uint64_t passes_;
  std::uint64_t pass_ = 1;
  bool terminal_;
  Clock::time_point begin_;
  Clock::time_point shown_ = begin_;
};

}  // namespace mcnb
