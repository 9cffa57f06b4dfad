#include <fmt/core.h>

#include <iostream>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/text_table.h"
#include "mcnb/cli/commands.h"
#include "mcnb/cli/log_input.h"
#include "mcnb/logs/log_writer.h"
#include "mcnb/logs/timestamps.h"
#include "mcnb/serve/store_log.h"

namespace mcnb {
namespace {

struct LogCommandFlags {
  LogFlags log;
  std::uint64_t rounds = 10;
  std::string format = "dsjson";
  std::string output;
  TableFlags tables;
};

std::string action_text(const LoggedRound& round) {
  const std::string& id = round.actions[round.chosen].id;
  return id.empty() ? fmt::format("number {}", round.chosen) : id;
}

std::string reward_text(const LoggedRound& round) {
  if (!round.reward) {
    return round.excluded ? "excluded" : "none";
  }
  return fmt::format("{:g}{}{}", *round.reward, round.default_reward ? " (default)" : "",
                     round.excluded ? ", excluded" : "");
}

void show_log(const LogCommandFlags& flags) {
  TextTable table({"time", "event", "user", "slot", "action", "of", "probability", "reward"});
  std::uint64_t rounds = 0;
  std::uint64_t rewarded = 0;
  double sum = 0.0;
  const std::string report = read_log(flags.log, false, [&](const LoggedRound& round) {
    if (rounds++ < flags.rounds) {
      table.add_row({round.time ? time_text(*round.time) : "-",
                     round.event.empty() ? "-" : round.event, round.user.empty() ? "-" : round.user,
                     std::to_string(round.slot), action_text(round),
                     std::to_string(round.actions.size()), fmt::format("{:.4g}", round.probability),
                     reward_text(round)});
    }
    if (round.reward && !round.excluded) {
      ++rewarded;
      sum += *round.reward;
    }
  });
  TableView view(flags.tables);
  view.show("rounds", table);
  if (rounds > flags.rounds) {
    view.say(fmt::format("... and {} more\n", rounds - flags.rounds));
  }
  view.say(fmt::format("\n{}\n", report));
  if (rewarded > 0) {
    view.say(fmt::format("mean reward {:.6g} of {} rounds\n", sum / static_cast<double>(rewarded),
                         rewarded));
  }
  view.finish();
}

void write_log(const LogCommandFlags& flags, LogFormat format, std::ostream& out) {
  const std::unique_ptr<LogWriter> writer = make_log_writer(format, out);
  const std::string report =
      read_log(flags.log, true, [&](const LoggedRound& round) { writer->write(round); });
  writer->finish();
  fmt::print(stderr, "mcnb: {}\n", report);
}

void export_log(const LogCommandFlags& flags) {
  const LogFormat format = parse_log_format(flags.format);
  if (is_store(flags.log.path)) {
    fmt::print(
        stderr,
        "mcnb: the features are the hashed numbers that the service stores, unless the model "
        "keeps those of its callers (keepFeatures)\n");
  }
  if (!flags.output.empty()) {
    FileWriter file(flags.output);
    write_log(flags, format, file.stream());
    file.finish();
    return;
  }
  write_log(flags, format, std::cout);
  std::cout.flush();
  if (!std::cout) {
    throw Error(ErrorKind::kSystem, "cannot write to the standard output");
  }
}

}  // namespace

void add_log_commands(CLI::App& app) {
  CLI::App* log = app.add_subcommand("log", "Look at logs of decisions and convert them");
  log->require_subcommand(1);
  auto flags = std::make_shared<LogCommandFlags>();
  CLI::App* show = log->add_subcommand("show", "The first rounds of a log, and what is in it");
  add_log_flags(*show, flags->log);
  show->add_option("--rounds", flags->rounds, "How many rounds to show")->capture_default_str();
  add_table_view_flags(*show, flags->tables);
  show->callback([flags] { show_log(*flags); });
  CLI::App* exporting = log->add_subcommand("export", "Write a log in another format");
  add_log_flags(*exporting, flags->log);
  exporting->add_option("--format", flags->format, "dsjson, jsonl or csv")->capture_default_str();
  exporting->add_option("--output", flags->output, "The file [standard output]");
  exporting->callback([flags] { export_log(*flags); });
}

}  // namespace mcnb
