#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "mcnb/logs/logged_round.h"

namespace mcnb {

// The forms in which logs are written; docs/EVALUATION.md describes them.
enum class LogFormat {
  kDsjson,     // as Vowpal Wabbit and Personalizer write them
  kJsonLines,  // one JSON object for each round
  kCsv,        // one row for each round
};
// "dsjson", "jsonl" or "csv". Throws Error (kUsage) for any other name.
LogFormat parse_log_format(const std::string& name);

// Writes rounds to a stream; reading them back gives the same rounds.
class LogWriter {
 public:
  virtual ~LogWriter() = default;

  // Requires a round that check_logged_round accepts. Throws Error (kInput) for a round that the
  // format cannot express, such as one without a reward in dsjson.
  virtual void write(const LoggedRound& round) = 0;
  // Call it after the last round.
  virtual void finish() {}
};

// Borrows the stream.
std::unique_ptr<LogWriter> make_log_writer(LogFormat format, std::ostream& out);

}  // namespace mcnb
