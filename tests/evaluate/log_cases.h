#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "mcnb/evaluate/readers/log_reader.h"
#include "mcnb/logs/log_writer.h"
#include "tests/data/data_files.h"

// Logs in memory for the tests of readers, writers and estimators.
namespace mcnb::cases {

inline std::vector<LoggedRound> rounds_of(const Input& input, const LogReadOptions& options = {},
                                          ReadReport* report = nullptr) {
  std::vector<LoggedRound> rounds;
  const ReadReport found =
      read_log(input, options, [&](const LoggedRound& round) { rounds.push_back(round); });
  if (report != nullptr) {
    *report = found;
  }
  return rounds;
}

inline std::vector<LoggedRound> rounds_in(std::string_view text,
                                          const LogReadOptions& options = {}) {
  return rounds_of(text_input(text, "log"), options);
}

inline std::string written(LogFormat format, const std::vector<LoggedRound>& rounds) {
  std::ostringstream out;
  const auto writer = make_log_writer(format, out);
  for (const LoggedRound& round : rounds) {
    writer->write(round);
  }
  writer->finish();
  return out.str();
}

}  // namespace mcnb::cases
