#include "mcnb/evaluate/readers/log_reader.h"

#include <fmt/core.h>

#include <system_error>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/text_reader.h"
#include "mcnb/evaluate/readers/line_readers.h"

namespace mcnb {
namespace {

std::unique_ptr<LineReader> make_line_reader(LogKind kind, std::string_view first_line,
                                             const Input& input, const LogReadOptions& options) {
  switch (kind) {
    case LogKind::kDsjson:
      return make_dsjson_reader();
    case LogKind::kJsonLines:
      return make_json_lines_reader();
    case LogKind::kCsv:
      return make_csv_reader(first_line, input);
    case LogKind::kOpenBandit:
      break;
  }
  return make_open_bandit_reader(first_line, options);
}

// The location "FILE:LINE" at the beginning of the message about a line.
std::string location_in(const std::string& message, const std::string& file) {
  return message.substr(0, message.find(':', file.size() + 1));
}

bool is_in_time(const LoggedRound& round, const LogReadOptions& options) {
  if ((options.from || options.to) && !round.time) {
    throw Error(ErrorKind::kUsage, "--from and --to need a log whose rounds have times");
  }
  return (!options.from || *round.time >= *options.from) &&
         (!options.to || *round.time < *options.to);
}

}  // namespace

LogKind kind_of_log(std::string_view first_line) {
  const auto names = [&](std::string_view name) {
    return first_line.find(name) != std::string_view::npos;
  };
  if (first_line.starts_with('[')) {
    return LogKind::kDsjson;  // a line between the events of dsjson
  }
  if (first_line.starts_with('{')) {
    const bool ours = names("\"actions\"") && names("\"chosen\"");
    return ours ? LogKind::kJsonLines : LogKind::kDsjson;
  }
  if (names("propensity_score") && names("item_id")) {
    return LogKind::kOpenBandit;
  }
  if (names("probability") && names("reward") && names("action")) {
    return LogKind::kCsv;
  }
  throw Error(ErrorKind::kInput,
              fmt::format("expected a log: dsjson, JSON lines, a CSV file with the columns action, "
                          "probability and reward, or one of the Open Bandit Dataset; found {}",
                          shown(first_line)));
}

ReadReport read_log(const Input& input, const LogReadOptions& options, const VisitRound& visit) {
  ThreadPool threads(1);
  TextReader text(input, threads);
  const std::string_view first_line = text.need_line();
  const LogKind kind =
      within(input.name() + ":1", [&] { return kind_of_log(trimmed(first_line)); });
  const std::unique_ptr<LineReader> reader = within(input.name() + ":1", [&] {
    try {
      return make_line_reader(kind, first_line, input, options);
    } catch (const RowError& error) {
      throw Error(ErrorKind::kInput, error.message);
    }
  });
  if (kind == LogKind::kCsv || kind == LogKind::kOpenBandit) {
    text.skip_line();
  }
  ReadReport report;
  std::uint64_t bad = 0;
  const VisitRound count_and_visit = [&](const LoggedRound& round) {
    ++report.rows;
    if (is_in_time(round, options)) {
      visit(round);
    }
  };
  const auto where = [&] {
    try {
      text.refuse_line("");
    } catch (const Error& error) {
      return location_in(error.what(), input.name());
    }
  };
  while (const std::optional<std::string_view> line = text.peek_line()) {
    bool visiting = false;  // errors of `visit` are not about the line
    const VisitRound guarded = [&](const LoggedRound& round) {
      visiting = true;
      count_and_visit(round);
    };
    const auto refuse = [&](const std::string& message) {
      if (++bad > options.skip_bad) {
        text.refuse_line(message);
      }
      report.skip("damaged lines", where());
    };
    try {
      reader->read(*line, guarded, [&](std::string_view what) { report.skip(what, where()); });
    } catch (const RowError& error) {
      refuse(error.message);
    } catch (const Error& error) {
      if (visiting || error.kind() != ErrorKind::kInput) {
        throw;
      }
      refuse(error.what());
    }
    text.skip_line();
  }
  return report;
}

ReadReport read_log_file(const std::filesystem::path& path, LogReadOptions options,
                         const VisitRound& visit) {
  const std::filesystem::path items = path.parent_path() / "item_context.csv";
  std::error_code missing;
  if (options.items.empty() && std::filesystem::exists(items, missing)) {
    options.items = items;
  }
  return read_log(Input::file(path), options, visit);
}

}  // namespace mcnb
