#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mcnb/bandit/policy.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// What happens to a model. Replaying these events in order, from the start or from a snapshot,
// gives the model's state, bit for bit. Clocks, the scores of decisions and the results of fits
// enter the state only through them.

// A new user.
struct Arrival {
  std::uint64_t user = 0;  // hash of the name
};

struct LoggedAction {
  std::string id;
  float probability = 0.0F;
  float value = 0.0F;  // score = estimate + parts
  float estimate = 0.0F;
  std::array<float, Score::kMostParts> parts{};  // in the order of Decision::part_names
  std::uint32_t cluster_size = 0;
  std::uint32_t cluster_found = 0;    // how many members were met ...
  std::uint32_t cluster_visited = 0;  // ... among how many learners, if the size is an estimate
  bool eligible = true;               // false if the caller excluded it
};

// Features as the caller sent them: JSON, or empty texts where there were none. A list of objects
// is a member of one object, as in the logs of Personalizer: {"FromUrl": [...]} of the context and
// {"j": [...]} of an action.
struct CallerFeatures {
  std::string context;
  std::vector<std::string> actions;  // as many as there are actions
};

struct Decision {
  std::string event_id;
  std::string user_id;
  std::int64_t time = 0;  // milliseconds since 1970
  std::uint64_t model_version = 0;
  ModelMode mode = ModelMode::kOnline;
  bool deferred = false;
  std::uint32_t chosen = 0;             // index of the answer
  std::uint32_t preferred = 0;          // index of the policy's own choice
  std::uint32_t arm = 0;                // index of the answer among the eligible actions
  bool estimated_sizes = false;         // the sizes of clusters are estimates (ClusterSample)
  std::vector<std::string> part_names;  // what the policy calls the parts of its scores
  std::vector<LoggedAction> actions;    // in the caller's order
  std::vector<std::uint32_t> ranking;   // their indices, in the order of the answer
  std::vector<float> features;          // of all actions, `dimension` numbers each
  std::optional<CallerFeatures> original = {};  // if the model keeps them
};

struct Reward {
  std::string event_id;
  std::string reward_id;  // may be empty
  std::int64_t time = 0;
  float value = 0.0F;
};

struct Activation {
  std::string event_id;
  std::int64_t time = 0;
};

// The waiting time of the oldest `count` events is over.
struct Expiry {
  std::int64_t time = 0;
  std::uint32_t count = 0;
};

struct Forgetting {
  std::uint64_t user = 0;  // hash of the name; the name itself is erased
  std::int64_t time = 0;
};

struct SettingsChange {
  std::int64_t time = 0;
  OptionValues settings;
};

// The policy begins a fit of all rewards so far (BackgroundFit in policy.h).
struct FitBegin {};

// The fit that began last has ended.
struct FitResult {
  std::string result;  // BackgroundFit::result; empty if the fit failed
};

using Event = std::variant<Arrival, Decision, Reward, Activation, Expiry, Forgetting,
                           SettingsChange, FitBegin, FitResult>;

// The numbers are stored in the log: append new ones, never renumber.
enum class EventKind : std::uint8_t {
  kArrival = 1,
  kDecision = 2,
  kReward = 3,
  kActivation = 4,
  kExpiry = 5,
  kForgetting = 6,
  kSettingsChange = 7,
  kFitBegin = 8,
  kFitResult = 9,
};
EventKind kind_of(const Event& event);

// The bytes of an event in the log.
std::string encode_event(const Event& event);

// The reverse of encode_event. Throws Error (kCorrupt) naming `what` for bytes that encode_event
// would not have written for a model of this dimension.
Event decode_event(EventKind kind, std::string_view bytes, std::size_t dimension,
                   std::string_view what);

}  // namespace mcnb
