#pragma once

#include <cstdint>
#include <string>

#include "mcnb/bandit/policies.h"
#include "mcnb/base/options.h"

namespace mcnb {

// Which of several rewards of one event is learned.
enum class Aggregation { kEarliest, kAverage, kSum, kMin, kMax };

enum class ModelMode {
  kOnline,      // chooses and learns
  kApprentice,  // answers with the caller's first action, and learns from its rewards
  kLogging,     // answers with the caller's first action; nothing is learned
};

// The options of a model. Settings can be changed later; the rest is fixed when the model is made.
struct ModelOptions {
  // Fixed.
  PolicySpec policy{.name = "hierarchical", .options = {}, .label = "hierarchical"};
  std::uint64_t dimension = 64;  // d: features of an action
  std::uint64_t seed = 1;
  bool interactions = true;  // pairs of context and action features are features too
  std::uint64_t groups = 0;  // learners that users are mapped onto by a hash; 0: one each
  std::uint64_t most_users = 100'000;
  std::uint64_t most_pending = 1'000'000;
  std::uint64_t remembered = 1'000'000;  // ended events that late rewards and lookups still find
  std::string user_path;  // path of the user's id in contextFeatures, such as "user.id"
  // Whether policies fit all their rewards beside the requests (FitBegin). Not for callers to
  // choose: true for new models, false for those that an earlier version made.
  bool fits_beside = true;

  // Settings.
  ModelMode mode = ModelMode::kOnline;
  double epsilon = 0.1;
  double waiting_seconds = 600.0;
  double default_reward = 0.0;
  Aggregation aggregation = Aggregation::kEarliest;
  bool estimates = true;       // what decisions earn, and would have earned, is counted
  bool keep_features = false;  // the log has the caller's features, too
};

// Limits that hold for every model.
inline constexpr std::size_t kMostActions = 1'000;
inline constexpr std::size_t kLongestId = 256;   // bytes of an event, user, action or reward id
inline constexpr std::size_t kLongestName = 64;  // of a model
inline constexpr const char* kEverybody = "everybody";  // the user of requests that name none
inline constexpr std::size_t kMostSlots = 100;          // of one event
inline constexpr std::size_t kMostDimension = 4'096;
inline constexpr std::size_t kMostNumbers = 262'144;  // actions times dimension: 1 MiB a row
inline constexpr std::size_t kMostRewards = 64;       // of one event

// Every option as text. An option of the policy is called "options.NAME"; those that were not given
// are left out, except if the policy has not always had them (pin_options).
OptionValues option_values(const ModelOptions& options);
// Adds the options that the policy did not have yet when an earlier program stored these values, as
// complete_options does.
void complete_option_values(OptionValues& values);
// Sets an option from text. Throws Error (kUsage) naming the option.
void set_option(ModelOptions& options, const std::string& name, const std::string& text);
// Sets the policy of a model that names none: `hierarchical`; or `mcnb` if it names options of a
// policy, which earlier versions took for those of mcnb, or if `hierarchical` cannot take as many
// numbers.
void set_default_policy(ModelOptions& options);
// The options of a stored model, from its option_values. Throws Error (kUsage).
ModelOptions stored_model_options(const OptionValues& values);
// Throws Error (kUsage) for an option that is fixed or unknown.
void change_setting(ModelOptions& options, const std::string& name, const std::string& text);
// Throws Error (kUsage) unless a model can be made with the options.
void check_model_options(const ModelOptions& options);
// Limits the policy's histories unless the caller has set a limit, so that memory stays bounded.
void bound_history(PolicySpec& policy);
void bound_histories(ModelOptions& options);
bool is_setting(const std::string& name);
std::vector<OptionHelp> model_option_help();

const char* name_of(ModelMode mode);
const char* name_of(Aggregation aggregation);

// True for a name that can be part of a path: letters, digits, '.', '_', '-', at most kLongestName,
// not beginning with '.'.
bool is_model_name(std::string_view name);

}  // namespace mcnb
