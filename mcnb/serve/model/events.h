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

// Which of several slots of an event a decision fills, such as positions on a page.
struct SlotOfEvent {
  std::uint32_t index = 0;
  std::vector<std::string> ids;  // of all slots of the event, in their order; empty: it has none

  bool operator==(const SlotOfEvent&) const = default;
};

// The features of a request as the caller wrote them, as JSON; empty: there were none.
struct CallerFeatures {
  std::string context;
  std::string slot;
  std::vector<std::string> actions;
};

struct Decision {
  std::string event_id;  // of a further slot: slot_event_id
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
  // What the challengers would have chosen, in their order: indices, of eligible actions.
  std::vector<std::uint32_t> challenged;
  SlotOfEvent slot;
  std::optional<CallerFeatures> kept;  // if the model keeps them
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
struct FitBegin {
  std::string challenger = {};  // whose policy; empty: the model's own
};

// The fit that began last has ended.
struct FitResult {
  std::string result = {};  // BackgroundFit::result; empty if the fit failed
  std::string challenger = {};
};

// A policy that learns beside the model's own begins with nothing learned.
struct ChallengerBegin {
  std::int64_t time = 0;
  std::string name = {};
  OptionValues options = {};  // option_values(ChallengerOptions)
};

struct ChallengerEnd {
  std::int64_t time = 0;
  std::string name = {};
};

// A challenger becomes the model's policy.
struct Promotion {
  std::int64_t time = 0;
  std::string name = {};
  std::string keep_as = {};  // the policy until now becomes a challenger of this name, unless empty
};

// A model begins with what was learned elsewhere. The first event of its log.
struct Start {
  std::int64_t time = 0;
  std::string state = {};  // Model::start_state
};

using Event =
    std::variant<Arrival, Decision, Reward, Activation, Expiry, Forgetting, SettingsChange,
                 FitBegin, FitResult, ChallengerBegin, ChallengerEnd, Promotion, Start>;

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
  kChallengerBegin = 10,
  kChallengerEnd = 11,
  kPromotion = 12,
  kStart = 13,
};
EventKind kind_of(const Event& event);

// The rows of events that concern all users have this instead of the hash of a user.
inline constexpr std::uint64_t kAllUsers = ~std::uint64_t{0};

// The bytes of an event in the log.
std::string encode_event(const Event& event);

// The reverse of encode_event. Throws Error (kCorrupt) naming `what` for bytes that encode_event
// would not have written for a model of this dimension.
Event decode_event(EventKind kind, std::string_view bytes, std::size_t dimension,
                   std::string_view what);

}  // namespace mcnb
