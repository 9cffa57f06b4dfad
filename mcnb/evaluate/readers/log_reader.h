#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mcnb/data/formats/input.h"
#include "mcnb/data/formats/read_report.h"
#include "mcnb/logs/logged_round.h"

namespace mcnb {

// What logs can be read as; docs/EVALUATION.md describes them.
enum class LogKind { kDsjson, kJsonLines, kCsv, kOpenBandit };

struct LogReadOptions {
  std::uint64_t skip_bad = 0;  // damaged lines that are left out and counted before one is an error
  bool features = true;        // false: contexts and features may be left empty, which is faster
  // Microseconds since 1970: only rounds from `from` on, and before `to`.
  std::optional<std::int64_t> from = {};
  std::optional<std::int64_t> to = {};
  std::filesystem::path items = {};  // Open Bandit: the file of the items' features; empty: none
};

// Reads a log from front to back and calls `visit` for every round. Keeps no more than one line in
// memory. Throws Error: kInput, which names file and line, for a damaged line; kUsage for rounds
// without times if only some times are asked for.
ReadReport read_log(const Input& input, const LogReadOptions& options, const VisitRound& visit);

// A log file. Takes the features of Open Bandit's items from the file item_context.csv beside it,
// if it is there.
ReadReport read_log_file(const std::filesystem::path& path, LogReadOptions options,
                         const VisitRound& visit);

// Throws Error (kInput) for a first line that begins none of these logs.
LogKind kind_of_log(std::string_view first_line);

}  // namespace mcnb
