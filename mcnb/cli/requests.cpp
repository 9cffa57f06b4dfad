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

// Before the text of the plan's file in what is kept of a request, which ends with it.
constexpr const char* kPlanText = "# the plan";
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

// What of the plan's list the text names, with whatever options; empty where it names all of it.
std::string chosen_from(const std::vector<std::string>& list, const std::string& text, bool& any) {
  const std::vector<std::string> names = split(text);
  std::string chosen;
  std::size_t count = 0;
  for (const std::string& entry : list) {
    if (text.empty() || std::ranges::any_of(names, [&](const std::string& name) {
          return entry == name || entry.starts_with(name + ":");
        })) {
      chosen += (chosen.empty() ? "" : ",") + entry;
      ++count;
    }
  }
  any = count > 0;
  return count == list.size() ? "" : chosen;
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

// The table of times has a world and a policy of its own.
void refuse_flags_of_breakdown(const ReproduceFlags& flags, const Plan& plan) {
  const std::pair<const char*, std::string> given[] = {
      {"datasets", flags.environments},
      {"policies", flags.policies},
      {"set", flags.settings.empty() ? "" : flags.settings.front()}};
  for (const auto& [flag, value] : given) {
    if (plan.figure == Figure::kBreakdown && !value.empty()) {
      refuse_option(flag, fmt::format("nothing beside {}, which has its own", plan.name), value);
    }
  }
}

// What was asked of a plan, as one text.
std::string text_of(const Request& request) {
  const ReproduceFlags& flags = request.flags;
  std::string text;
  for (const std::string& line :
       {request.name, flags.environments, flags.policies, flags.rounds, flags.seeds,
        flags.first_seed, std::string(flags.tune ? "tune" : "")}) {
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
  flags.tune = !tuned.empty();
  for (std::string line; std::getline(lines, line);) {
    if (line == kPlanText) {
      request.text.assign(std::istreambuf_iterator<char>(lines), {});
    } else if (line.starts_with(kCommand)) {
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
  const std::string file = request.name + (request.name.ends_with(".toml") ? "" : ".toml");
  Plan plan = request.text.empty() ? read_plan(find_plan(request.name, plan_folders()))
                                   : read_plan(file, request.text);
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
    plan.environments = split(flags.environments);
  }
  if (!flags.policies.empty()) {
    plan.policies = split(flags.policies);
  }
  check_lists(plan);
  for (const auto& [option, value] : read_settings(flags.settings)) {
    plan.settings[option] = value;
  }
  if (!plan.matched_to.empty() && std::ranges::count(plan.policies, plan.matched_to) == 0) {
    refuse_option(
        "policies",
        fmt::format("{} among them, to whose steps the others are matched", plan.matched_to),
        flags.policies);
  }
  if (flags.tune && !plan.tuning.grids.empty()) {  // stands beside the same plan as it is
    check_tuning_seeds(plan.tuning, plan.options);
    plan.name += "-tuned";
    plan.title += " (tuned)";
  }
  return plan;
}

std::string settings_of(const Plan& plan) {
  std::vector<EnvironmentSpec> specs;
  if (plan.figure != Figure::kBreakdown) {
    for (const Study& study : studies_of(plan, nullptr)) {
      specs.push_back(study.experiment.environment);
    }
  }
  return settings_text(changed_settings(plan, specs), " ");
}

std::string key_of(const Plan& plan) {
  const std::string settings = settings_of(plan);
  return "plan " + plan.name + (settings.empty() ? "" : " " + settings);
}

std::vector<Request> requests_of(const ReproduceFlags& flags,
                                 const std::map<std::string, std::string>& texts) {
  std::vector<Request> requests;
  std::set<std::string> keys;
  const bool all = flags.names == std::vector<std::string>{"all"};
  if (!all && std::ranges::count(flags.names, "all") > 0) {
    refuse_option("NAME", "all alone, or names of plans", "all beside others");
  }
  for (const std::string& name : all ? kPaper : flags.names) {
    Request request{name, flags};
    if (const auto kept = texts.find(fs::path(name).stem().string());
        kept != texts.end() && name.ends_with(".toml") && !fs::exists(name)) {
      request.text = kept->second;
    }
    if (all) {
      const Plan plan = read_plan(find_plan(name, plan_folders()));
      bool has_environments = false;
      bool has_policies = false;
      request.flags.environments =
          chosen_from(plan.environments, flags.environments, has_environments);
      request.flags.policies = chosen_from(plan.policies, flags.policies, has_policies);
      if (!has_environments || !has_policies) {
        fmt::print(stderr, "{} is left out: it has none of these {}\n", name,
                   has_environments ? "policies" : "data sets");
        continue;
      }
    }
    const Plan plan = plan_of(request);
    request.text = plan.text;  // as it is now: a change of the file is for the next time
    requests.push_back(std::move(request));
    if (!all) {
      refuse_flags_of_breakdown(flags, plan);
    }
    if (!keys.insert(key_of(plan)).second) {
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
  store.keep_text(key, text_of(request) + kCommand + request.flags.command + "\n" + kPlanText +
                           "\n" + plan.text);
}

std::vector<Request> remembered_requests(const CellStore& store, const ReproduceFlags& flags) {
  std::vector<Request> requests;
  std::map<std::string, std::size_t> places;  // by key
  for (const auto& [name, text] : store.kept_texts()) {
    if (!name.starts_with("plan ")) {
      continue;
    }
    Request request = read_request(text);
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
  // In the paper's order, then the others.
  std::ranges::stable_sort(requests, {}, [](const Request& request) {
    return std::ranges::find(kPaper, request.name) - kPaper.begin();
  });
  return requests;
}

Request joined(Request request, const Request& earlier) {
  Request same = earlier;
  same.flags.environments = request.flags.environments;
  if (text_of(same) != text_of(request)) {
    return request;
  }
  std::vector<std::string> both = plan_of(earlier).environments;
  for (const std::string& environment : plan_of(request).environments) {
    if (std::ranges::count(both, environment) == 0) {
      both.push_back(environment);
    }
  }
  request.flags.environments.clear();
  if (both != plan_of(request).environments) {
    for (const std::string& environment : both) {
      request.flags.environments += (request.flags.environments.empty() ? "" : ",") + environment;
    }
  }
  return request;
}

std::vector<Request> reported_requests(const ReproduceFlags& flags, const CellStore& store) {
  if (text_of({"", flags}) != text_of({})) {
    ReproduceFlags all = flags;
    if (all.names.empty()) {
      all.names = {"all"};
    }
    std::map<std::string, std::string> texts;
    for (const Request& request : remembered_requests(store, flags)) {
      texts[fs::path(request.name).stem().string()] = request.text;
    }
    return requests_of(all, texts);
  }
  std::vector<Request> requests = remembered_requests(store, flags);
  const auto is_called = [](const Request& request, const std::string& name) {
    return name == request.name || fs::path(name).stem() == fs::path(request.name).stem();
  };
  const bool all = flags.names.empty() || flags.names == std::vector<std::string>{"all"};
  for (const std::string& name : all ? std::vector<std::string>() : flags.names) {
    if (std::ranges::none_of(requests, [&](const Request& one) { return is_called(one, name); })) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: no plan {} has been run; mcnb reproduce runs it",
                              store.path().string(), name));
    }
  }
  std::erase_if(requests, [&](const Request& request) {
    return !all && std::ranges::none_of(flags.names, [&](const std::string& name) {
      return is_called(request, name);
    });
  });
  if (requests.empty()) {
    throw Error(ErrorKind::kInput, fmt::format("{}: no plan has been run; mcnb reproduce runs it",
                                               store.path().string()));
  }
  return requests;
}

}  // namespace mcnb
