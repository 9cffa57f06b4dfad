#include "mcnb/cli/requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/cli/commands.h"
#include "mcnb/experiment/section_writer.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Before the key of a plan, for the text of its file.
constexpr const char* kPlanText = "text of ";
// Before the command in what is kept of a request.
constexpr const char* kCommand = "$ ";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + ",") {
    if (c != ',') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  return parts;
}

// What is listed; or what of the old list it names, with whatever options.
std::vector<std::string> listed(const std::string& text, const std::vector<std::string>& old,
                                bool select) {
  const std::vector<std::string> names = split(text);
  if (!select) {
    return names;
  }
  std::vector<std::string> chosen;
  std::ranges::copy_if(old, std::back_inserter(chosen), [&](const std::string& entry) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return entry == name || entry.starts_with(name + ":");
    });
  });
  return chosen;
}

// Where plans are: those of the current folder come before the ones that came with the program.
std::vector<fs::path> plan_folders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return {"experiments", MCNB_EXPERIMENTS_DIR,
          program.parent_path().parent_path() / "share/mcnb/experiments"};
}

// The paper's, in its order.
const std::vector<std::string> kPaper = {"fig-recommendation", "fig-classification", "fig-runtime",
                                         "table-breakdown",    "fig-nu-gamma",       "fig-s",
                                         "fig-users",          "fig-clusters"};

// What was asked of a plan, as one text.
std::string text_of(const Request& request) {
  const ReproduceFlags& flags = request.flags;
  std::string text;
  for (const std::string& line :
       {request.name, flags.environments, flags.policies, flags.rounds, flags.seeds,
        flags.first_seed,
        std::string(flags.tune ? "tune" : "") + std::string(flags.select ? " select" : "")}) {
    text += line + "\n";
  }
  for (const std::string& setting : flags.settings) {
    text += setting + "\n";
  }
  return text;
}

Request read_request(const std::string& text) {
  Request request;
  ReproduceFlags& flags = request.flags;
  std::string tuned;
  std::istringstream lines(text);
  for (std::string* field : {&request.name, &flags.environments, &flags.policies, &flags.rounds,
                             &flags.seeds, &flags.first_seed, &tuned}) {
    std::getline(lines, *field);
  }
  flags.tune = tuned.starts_with("tune");
  flags.select = tuned.ends_with(" select");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommand)) {
      flags.command = line.substr(std::string(kCommand).size());
    } else {
      flags.settings.push_back(line);
    }
  }
  return request;
}

}  // namespace

Plan plan_of(const Request& request) {
  const ReproduceFlags& flags = request.flags;
  Plan plan = request.text.empty() ? read_plan(find_plan(request.name, plan_folders()))
                                   : read_plan(fs::path(request.name), request.text);
  if (!flags.jobs.empty()) {
    plan.options.threads = parse_count("jobs", {0, 1024}, flags.jobs);
  }
  const std::pair<const char*, const std::string*> values[] = {
      {"rounds", &flags.rounds}, {"seeds", &flags.seeds}, {"first_seed", &flags.first_seed}};
  for (const auto& [option, text] : values) {
    if (!text->empty()) {
      experiment_option_table().set(plan.options, option, *text);
    }
  }
  if (!flags.environments.empty()) {
    plan.environments = listed(flags.environments, plan.environments, flags.select);
  }
  if (!flags.policies.empty()) {
    plan.policies = listed(flags.policies, plan.policies, flags.select);
  }
  if (!flags.select) {
    check_lists(plan);
  }
  for (const auto& [option, value] : read_settings(flags.settings)) {
    plan.settings[option] = value;
  }
  if (flags.tune && !plan.tuning.grids.empty()) {  // stands beside the same plan as it is
    plan.name += "-tuned";
    plan.title += " (tuned)";
  }
  return plan;
}

std::string key_of(const Plan& plan) {
  std::vector<EnvironmentSpec> specs;
  if (plan.figure != Figure::kBreakdown) {
    for (const Study& study : studies_of(plan, nullptr)) {
      specs.push_back(study.experiment.environment);
    }
  }
  const OptionValues settings = changed_settings(plan, specs);
  return "plan " + plan.name + (settings.empty() ? "" : " " + settings_text(settings, " "));
}

std::vector<Request> requests_of(const ReproduceFlags& flags) {
  std::vector<Request> requests;
  std::set<std::string> keys;
  const bool all = flags.names == std::vector<std::string>{"all"};
  for (const std::string& name : all ? kPaper : flags.names) {
    Request request{name, flags};
    request.flags.select = all;
    if (all) {
      const Plan plan = plan_of(request);
      if (plan.environments.empty() || plan.policies.empty()) {
        fmt::print(stderr, "{} is left out: it has none of these {}\n", name,
                   plan.environments.empty() ? "data sets" : "policies");
        continue;
      }
    }
    requests.push_back(std::move(request));
    if (!keys.insert(key_of(plan_of(requests.back()))).second) {
      refuse_option("NAME", "plans of different names", name);
    }
  }
  if (requests.empty()) {
    refuse_option(flags.environments.empty() ? "policies" : "datasets",
                  "one that a plan of the paper has",
                  flags.environments.empty() ? flags.policies : flags.environments);
  }
  return requests;
}

void remember(const CellStore& store, const Request& request) {
  const Plan plan = plan_of(request);
  const std::string key = key_of(plan);
  store.keep_text(key, text_of(request) + kCommand + request.flags.command + "\n");
  store.keep_text(kPlanText + key, plan.text);
}

std::vector<Request> remembered_requests(const CellStore& store, const ReproduceFlags& flags) {
  std::vector<Request> requests;
  std::map<std::string, std::size_t> places;  // by key
  const std::map<std::string, std::string> texts = store.kept_texts();
  for (const auto& [name, text] : texts) {
    if (!name.starts_with("plan ")) {
      continue;
    }
    Request request = read_request(text);
    if (const auto plan = texts.find(kPlanText + name); plan != texts.end()) {
      request.text = plan->second;
    }
    request.flags.stored_only = true;
    request.flags.output = flags.output;
    request.flags.data = flags.data;
    std::string key;
    try {
      key = key_of(plan_of(request));
    } catch (const Error& error) {  // a plan's file that is no more
      fmt::print(stderr, "{} is not on the page: {}\n", request.name, error.what());
      continue;
    }
    const auto [place, is_new] = places.emplace(key, requests.size());
    if (is_new) {
      requests.push_back(std::move(request));
    } else if (name == key) {  // the other is from before its plan had this key
      requests[place->second] = std::move(request);
    }
  }
  return requests;
}

Request joined(Request request, const Request& earlier) {
  Request same = earlier;
  same.flags.environments = request.flags.environments;
  if (text_of(same) != text_of(request)) {
    return request;
  }
  std::string all;
  if (!request.flags.environments.empty() && !earlier.flags.environments.empty()) {
    std::set<std::string> seen;
    for (const std::string& environment :
         split(earlier.flags.environments + "," + request.flags.environments)) {
      all += !seen.insert(environment).second ? "" : (all.empty() ? "" : ",") + environment;
    }
  }
  request.flags.environments = all;
  return request;
}

std::vector<Request> reported_requests(const ReproduceFlags& flags, const CellStore& store) {
  if (text_of({"", flags}) != text_of({})) {
    ReproduceFlags all = flags;
    if (all.names.empty()) {
      all.names = {"all"};
    }
    return requests_of(all);
  }
  std::vector<Request> requests = remembered_requests(store, flags);
  if (!flags.names.empty() && flags.names != std::vector<std::string>{"all"}) {
    std::erase_if(requests, [&](const Request& request) {
      return std::ranges::none_of(flags.names, [&](const std::string& name) {
        return name == request.name || fs::path(name).stem() == fs::path(request.name).stem();
      });
    });
  }
  if (requests.empty()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: no such plan has been run; mcnb reproduce runs it",
                            store.path().string()));
  }
  return requests;
}

}  // namespace mcnb
