#include "mcnb/serve/model/challengers.h"

#include "mcnb/bandit/lesson_weights.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::string_view kPolicyPrefix = "options.";

const OptionTable<ChallengerOptions>& table() {
  static const OptionTable<ChallengerOptions> kTable = [] {
    using O = ChallengerOptions;
    OptionTable<O> t;
    t.choice<LessonWeights>("weights", &O::weights,
                            {{"none", LessonWeights::kNone}, {"clipped", LessonWeights::kClipped}},
                            "how lessons are weighed: all alike, or by importance");
    t.number("mostWeight", &O::most_weight, {1, 1e4}, "the most that a lesson weighs");
    return t;
  }();
  return kTable;
}

}  // namespace

const char* name_of(LessonWeights weights) {
  return weights == LessonWeights::kNone ? "none" : "clipped";
}

OptionValues option_values(const ChallengerOptions& options) {
  OptionValues all = table().values(options);
  all["policy"] = options.policy.name;
  PolicySpec policy = options.policy;
  pin_options(policy);
  for (const auto& [name, text] : policy.options) {
    all[std::string(kPolicyPrefix) + name] = text;
  }
  return all;
}

void set_option(ChallengerOptions& options, const std::string& name, const std::string& text) {
  if (name == "policy") {
    options.policy.name = options.policy.label = text;
  } else if (name.starts_with(kPolicyPrefix)) {
    options.policy.options[name.substr(kPolicyPrefix.size())] = text;
  } else if (name == "weights" || name == "mostWeight") {
    table().set(options, name, text);
  } else {
    refuse_option(name, "one of name, policy, options, weights, mostWeight", name);
  }
}

ChallengerOptions challenger_options(const OptionValues& values) {
  ChallengerOptions options;
  for (const auto& [name, text] : values) {
    set_option(options, name, text);
  }
  complete_options(options.policy);
  check_challenger_options(options);
  return options;
}

void check_challenger_options(const ChallengerOptions& options) {
  table().validate(options);
  if (options.policy.name.empty()) {
    refuse_option("policy", "the name of a policy", "");
  }
  resolved_options(options.policy);
  if (options.weights != LessonWeights::kNone && !takes_weights(options.policy)) {
    refuse_option("weights", "none, because with these options the policy learns all lessons alike",
                  name_of(options.weights));
  }
}

}  // namespace mcnb
