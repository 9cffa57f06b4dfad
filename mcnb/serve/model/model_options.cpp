#include "mcnb/serve/model/model_options.h"

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::string_view kPolicyPrefix = "options.";
constexpr double kBillion = 1e9;
constexpr std::uint64_t kMostForDefault = 64;  // numbers of an action that `hierarchical` takes
// Stored with the options of models whose fits run beside the requests.
constexpr const char* kFits = "fits";
constexpr const char* kFitsBeside = "beside";
// Limits of a policy's histories, in events.
constexpr const char* kUserHistoryLimit = "1000";
constexpr const char* kSharedHistoryLimit = "10000";

const OptionTable<ModelOptions>& fixed_table() {
  static const OptionTable<ModelOptions> kTable = [] {
    using O = ModelOptions;
    OptionTable<O> t;
    t.count("dimension", &O::dimension, {1, kMostDimension},
            "numbers that describe an action; objects are hashed into so many buckets");
    t.count("seed", &O::seed, {0, 1e15}, "of all random numbers");
    t.yes_no("interactions", &O::interactions,
             "whether pairs of a context feature and an action feature are features too");
    t.count("groups", &O::groups, {0, 1e6},
            "learners that users are mapped onto by a hash of their names; 0: one for each user");
    t.count("mostUsers", &O::most_users, {1, 1e8},
            "users with a learner of their own; later ones share those that are there");
    t.count("mostPending", &O::most_pending, {1, 1e8},
            "events that wait for a reward; beyond it the oldest end early");
    t.count("remembered", &O::remembered, {1, 1e8},
            "ended events that lookups and late rewards still find");
    return t;
  }();
  return kTable;
}

const OptionTable<ModelOptions>& settings_table() {
  static const OptionTable<ModelOptions> kTable = [] {
    using O = ModelOptions;
    OptionTable<O> t;
    t.choice<ModelMode>("mode", &O::mode,
                        {{"online", ModelMode::kOnline},
                         {"apprentice", ModelMode::kApprentice},
                         {"logging", ModelMode::kLogging}},
                        "chooses and learns | answers the first action, learns | only logs");
    t.number("epsilon", &O::epsilon, {0, 1},
             "share of decisions drawn from all actions alike; the rest takes the policy's choice");
    t.number("waitingSeconds", &O::waiting_seconds, {0.001, kBillion},
             "how long an event waits for rewards");
    t.number("defaultReward", &O::default_reward, {0, 1}, "learned where no reward came");
    t.choice<Aggregation>("aggregation", &O::aggregation,
                          {{"earliest", Aggregation::kEarliest},
                           {"average", Aggregation::kAverage},
                           {"sum", Aggregation::kSum},
                           {"min", Aggregation::kMin},
                           {"max", Aggregation::kMax}},
                          "of several rewards: the first, at once, or one of all, at the end");
    t.yes_no("estimates", &O::estimates,
             "whether what decisions earn, and would have earned, is counted");
    t.yes_no("keepFeatures", &O::keep_features,
             "whether the log has the caller's features, beside the numbers they are hashed into");
    return t;
  }();
  return kTable;
}

bool has(const OptionTable<ModelOptions>& table, const std::string& name) {
  return std::ranges::any_of(table.help(), [&](const OptionHelp& o) { return o.name == name; });
}

}  // namespace

OptionValues option_values(const ModelOptions& options) {
  OptionValues all = fixed_table().values(options);
  all.merge(settings_table().values(options));
  all["policy"] = options.policy.name;
  all["userPath"] = options.user_path;
  if (options.fits_beside) {
    all[kFits] = kFitsBeside;
  }
  PolicySpec policy = options.policy;
  pin_options(policy);
  for (const auto& [name, text] : policy.options) {
    all[std::string(kPolicyPrefix) + name] = text;
  }
  return all;
}

void complete_option_values(OptionValues& values) {
  const auto policy = values.find("policy");
  if (policy == values.end()) {
    return;
  }
  PolicySpec stored{.name = policy->second, .options = {}, .label = policy->second};
  complete_options(stored);
  for (const auto& [name, text] : stored.options) {
    values.emplace(std::string(kPolicyPrefix) + name, text);
  }
}

void set_option(ModelOptions& options, const std::string& name, const std::string& text) {
  if (name == "policy") {
    options.policy.name = options.policy.label = text;
  } else if (name == "userPath") {
    if (text.size() > kLongestId) {
      refuse_option(name, fmt::format("at most {} bytes", kLongestId), text);
    }
    options.user_path = text;
  } else if (name.starts_with(kPolicyPrefix)) {
    options.policy.options[name.substr(kPolicyPrefix.size())] = text;
  } else if (is_setting(name)) {
    settings_table().set(options, name, text);
  } else if (has(fixed_table(), name)) {
    fixed_table().set(options, name, text);
  } else {
    std::string known = "policy, options, userPath";
    for (const OptionHelp& option : model_option_help()) {
      known += ", " + option.name;
    }
    refuse_option(name, "one of " + known, name);
  }
}

void set_default_policy(ModelOptions& options) {
  const bool is_mcnb = !options.policy.options.empty() || options.dimension > kMostForDefault;
  options.policy.name = options.policy.label = is_mcnb ? "mcnb" : "hierarchical";
}

ModelOptions stored_model_options(const OptionValues& values) {
  ModelOptions options;
  options.fits_beside = false;
  options.estimates = false;
  for (const auto& [name, text] : values) {
    if (name == kFits) {
      if (text != kFitsBeside) {
        refuse_option(name, kFitsBeside, text);
      }
      options.fits_beside = true;
    } else {
      set_option(options, name, text);
    }
  }
  return options;
}

void change_setting(ModelOptions& options, const std::string& name, const std::string& text) {
  if (!is_setting(name)) {
    std::string known;
    for (const OptionHelp& option : settings_table().help()) {
      known += (known.empty() ? "" : ", ") + option.name;
    }
    refuse_option(name, "one that may change: " + known, name);
  }
  settings_table().set(options, name, text);
}

void check_model_options(const ModelOptions& options) {
  fixed_table().validate(options);
  settings_table().validate(options);
  resolved_options(options.policy);
}

void bound_history(PolicySpec& policy) {
  for (const PolicyHelp& known : policy_help()) {
    for (const OptionHelp& option : known.options) {
      if (known.name == policy.name && option.name == "history_limit" && option.standard == "0") {
        policy.options.emplace("history_limit",
                               known.name == "mcnb" ? kUserHistoryLimit : kSharedHistoryLimit);
      }
    }
  }
}

void bound_histories(ModelOptions& options) { bound_history(options.policy); }

bool is_setting(const std::string& name) { return has(settings_table(), name); }

std::vector<OptionHelp> model_option_help() {
  std::vector<OptionHelp> all = fixed_table().help();
  for (OptionHelp& option : settings_table().help()) {
    all.push_back(std::move(option));
  }
  return all;
}

const char* name_of(ModelMode mode) {
  switch (mode) {
    case ModelMode::kOnline:
      return "online";
    case ModelMode::kApprentice:
      return "apprentice";
    case ModelMode::kLogging:
      return "logging";
  }
  return "?";
}

const char* name_of(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kEarliest:
      return "earliest";
    case Aggregation::kAverage:
      return "average";
    case Aggregation::kSum:
      return "sum";
    case Aggregation::kMin:
      return "min";
    case Aggregation::kMax:
      return "max";
  }
  return "?";
}

bool is_model_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace mcnb
