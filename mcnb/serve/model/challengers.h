#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/bandit/policy.h"
#include "mcnb/base/options.h"
#include "mcnb/serve/model/outcomes.h"

namespace mcnb {

// How a challenger weighs what it learns from the answers of the model's policy.
enum class LessonWeights {
  kNone,     // all alike
  kClipped,  // by the probability of the answer under random play over that with which it was
             // drawn, at most ChallengerOptions::most_weight
};

const char* name_of(LessonWeights weights);

// A policy that sees the decisions and rewards of a model, learns from them, and never answers.
struct ChallengerOptions {
  PolicySpec policy;
  LessonWeights weights = LessonWeights::kNone;
  double most_weight = 10.0;
};

// Every option as text. Options of the policy are called "options.NAME", as those of a model.
OptionValues option_values(const ChallengerOptions& options);
// Sets an option from text. Throws Error (kUsage) naming the option.
void set_option(ChallengerOptions& options, const std::string& name, const std::string& text);
// The reverse of option_values. Adds the options that the policy did not have yet when an earlier
// program stored these values. Throws Error (kUsage).
ChallengerOptions challenger_options(const OptionValues& values);
// Throws Error (kUsage) unless a challenger can be made with the options.
void check_challenger_options(const ChallengerOptions& options);

// A challenger of a model, with what it would have earned. Its estimate and that of the model's own
// policy are of the same decisions: those since `since` at which all policies said what they
// prefer.
struct Challenger {
  std::string name;
  ChallengerOptions options;
  PolicySize size;
  std::unique_ptr<Policy> policy;
  std::uint32_t slot = 0;   // less than kMostChallengers; no other challenger has it
  std::uint64_t since = 0;  // log position of the event since which it is estimated
  std::uint64_t learned = 0;
  std::uint64_t refused = 0;  // lessons that the policy refused
  RunningValue estimate;
  RunningValue champion;
  std::string last_refusal;  // or failure to decide; not part of the state
};

// What people are told about a challenger.
struct ChallengerReport {
  std::string name;
  ChallengerOptions options;
  std::uint64_t since = 0;
  std::uint64_t learned = 0;
  std::uint64_t refused = 0;
  std::size_t memory_bytes = 0;
  RunningValue estimate;
  RunningValue champion;
  std::string last_refusal;
};

// What a model's decisions have earned, and would have earned. The sums of `counts` are over all
// decisions that count; the estimates over those since something began: the model's policy,
// challengers, or the model.
struct EstimateReport {
  OutcomeCounts counts;
  std::size_t uncounted = 0;  // decisions whose waiting time is not over
  RunningValue champion;
  RunningValue random;
  RunningValue first;  // always the caller's first action
  std::vector<ChallengerReport> challengers;
};

}  // namespace mcnb
