#include "mcnb/experiment/report/page_facts.h"

#include <fmt/core.h>

#include <ctime>
#include <sstream>

#include "mcnb/experiment/results/table_numbers.h"

namespace mcnb {
namespace {

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

// " on this machine, 2026-11-15 to 2026-11-16", as far as machines and dates are known.
std::string where_and_when(const Origins& origins) {
  std::string text;
  if (origins.machines.size() == 1) {
    text += " on " + origins.machines.begin()->first;
  } else if (!origins.machines.empty()) {
    text += ", " + counts_text(origins.machines, "on");
  }
  if (!origins.first_date.empty()) {
    text += ", " + origins.first_date;
    text += origins.last_date == origins.first_date ? "" : " to " + origins.last_date;
  }
  return text;
}

std::string facts_of(const PagePlan& one) {
  const ExperimentOptions& options = one.plan.options;
  const double seconds = one.section.seconds;
  const std::string& command = one.request.command;
  return fmt::format("{} rounds, seeds {} to {}{}{}, by {}", options.rounds, options.first_seed,
                     options.first_seed + options.seeds - 1,
                     seconds > 0.0 ? ", runs of " + duration_text(seconds) + " in all" : "",
                     where_and_when(one.section.origins),
                     command.empty() ? "a command that was not kept" : without_folders(command));
}

}  // namespace

MadeBy page_facts(const std::string& command, const std::vector<const PagePlan*>& plans,
                  const CellStore& store) {
  const Origin here = store.origin();
  MadeBy facts{
      {"page made", fmt::format("{} on {}", time_now(), here.machine)},
      // AVX-512 and AVX2 give equal results, so programs name only one of them.
      {"version", here.program + (here.program.ends_with("avx2") ? " (or avx512)" : "")},
      {"command", without_folders(command)},
      {"results", fmt::format("{}, {} runs", without_folders(store.name()), store.size())}};
  for (const PagePlan* one : plans) {
    facts.emplace_back(
        fmt::format("{} {}", one->plan.name, without_folders(settings_of(one->plan))),
        facts_of(*one));
  }
  return facts;
}

std::string counts_text(const std::map<std::string, std::size_t>& counts, const std::string& word) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", count, word, name);
  }
  return text;
}

std::string without_folders(const std::string& text) {
  std::string all;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ' ');) {
    const std::size_t slash = word.find_last_of('/');
    const bool is_address = word.find("://") != std::string::npos;
    if (slash != std::string::npos && !is_address) {
      const std::size_t equals = word.find('=');
      const std::string option = equals < slash ? word.substr(0, equals + 1) : "";
      word = option + word.substr(slash + 1);
    }
    all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

}  // namespace mcnb
