#pragma once

#include <CLI/CLI.hpp>
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

}  // namespace mcnb
