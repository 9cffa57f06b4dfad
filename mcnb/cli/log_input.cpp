#include "mcnb/cli/log_input.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "mcnb/base/error.h"
#include "mcnb/evaluate/readers/log_reader.h"
#include "mcnb/logs/timestamps.h"
#include "mcnb/serve/store_log.h"

namespace mcnb {
namespace {

std::optional<std::int64_t> time_of(const char* flag, const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> time = parse_time(text);
  if (!time) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{} \"{}\": expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z",
                            flag, text));
  }
  return time;
}

std::string text_of(const StoreLogReport& report) {
  std::string text = fmt::format("model {}: {} decisions", report.model, report.rounds);
  if (report.unactivated > 0) {
    text += fmt::format("; {} of them were never activated", report.unactivated);
  }
  if (report.waiting > 0) {
    text += fmt::format("; left out: {} that still wait for their rewards", report.waiting);
  }
  if (report.forgotten > 0) {
    text += fmt::format("; left out: {} of forgotten users", report.forgotten);
  }
  return text;
}

}  // namespace

LogDisplay::LogDisplay(std::uint64_t passes)
    : passes_(passes), terminal_(::isatty(STDERR_FILENO) == 1), begin_(Clock::now()) {}

void LogDisplay::show(std::uint64_t rounds) {
  constexpr std::uint64_t kRoundsBetweenLooks = 64;
  if (rounds % kRoundsBetweenLooks != 0) {
    return;
  }
  const Clock::time_point now = Clock::now();
  if (now - shown_ >= (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(5))) {
    shown_ = now;
    print(rounds);
  }
}

void LogDisplay::end(std::uint64_t rounds) {
  if (terminal_) {
    print(rounds);
    fmt::print(stderr, "\n");
  }
}

void LogDisplay::print(std::uint64_t rounds) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  fmt::print(stderr, "{}pass {} of {}  {} rounds  {:.0f} rounds/s{}", terminal_ ? "\r" : "", pass_,
             passes_, rounds, static_cast<double>(rounds) / std::max(seconds, 1e-9),
             terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
}

void add_log_flags(CLI::App& command, LogFlags& flags) {
  command
      .add_option("log", flags.path,
                  "A file (dsjson, JSON lines, CSV, Open Bandit; plain or .gz) or the data folder "
                  "of mcnb serve, or its postgresql://...")
      ->required();
  command.add_option("--model", flags.model, "The model, of a data folder with several");
  command.add_option("--from", flags.from, "The time from which decisions count: 2026-01-31");
  command.add_option("--to", flags.to, "The time before which decisions count");
  command
      .add_option("--skip-bad", flags.skip_bad, "Damaged lines to leave out before one is an error")
      ->capture_default_str();
}

std::string read_log(const LogFlags& flags, bool features, const VisitRound& visit) {
  const std::optional<std::int64_t> from = time_of("--from", flags.from);
  const std::optional<std::int64_t> to = time_of("--to", flags.to);
  if (is_store(flags.path)) {
    return text_of(
        read_store_log(flags.path, {.model = flags.model, .from = from, .to = to}, visit));
  }
  if (!flags.model.empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--model: {} is not the data folder of a service", flags.path));
  }
  return read_log_file(flags.path,
                       {.skip_bad = flags.skip_bad, .features = features, .from = from, .to = to},
                       visit)
      .text();
}

}  // namespace mcnb
