#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// What happens to a model. The log of these, in order, is the model: replayed from the start or
// from a snapshot they give the same state, bit for bit. Clocks, random numbers from outside and
// the scores of decisions enter the state only through them.

// A user who has not been seen before.
struct Arrival {
  std::uint64_t user = 0;  // hash of the name
};

struct LoggedAction {
  std::string id;
  float probability = 0.0F;
  float value = 0.0F;  // score = estimate + meta_bonus + user_bonus
  float estimate = 0.0F;
  float meta_bonus = 0.0F;
  float user_bonus = 0.0F;
  std::uint32_t cluster_size = 0;
  bool eligible = true;  // false where the caller excluded it
};

struct Decision {
  std::string event_id;
  std::string user_id;
  std::int64_t time = 0;  // milliseconds since 1970
  std::uint64_t model_version = 0;
  ModelMode mode = ModelMode::kOnline;
  bool deferred = false;
  std::uint32_t chosen = 0;           // the answer
  std::uint32_t preferred = 0;        // what the policy would have answered
  std::uint32_t arm = 0;              // the answer's place among the actions that were not excluded
  std::vector<LoggedAction> actions;  // in the caller's order
  std::vector<std::uint32_t> ranking;  // their places, as answered
  std::vector<float> features;         // of all actions, `dimension` numbers each
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
  std::uint64_t user = 0;  // hash of the name, which is nowhere any more
  std::int64_t time = 0;
};

struct SettingsChange {
  std::int64_t time = 0;
  OptionValues settings;
};

using Event =
    std::variant<Arrival, Decision, Reward, Activation, Expiry, Forgetting, SettingsChange>;

// The numbers are part of the log: append, never renumber.
enum class EventKind : std::uint8_t {
  kArrival = 1,
  kDecision = 2,
  kReward = 3,
  kActivation = 4,
  kExpiry = 5,
  kForgetting = 6,
  kSettingsChange = 7,
};
EventKind kind_of(const Event& event);

// The bytes of an event in the log.
std::string encode_event(const Event& event);

// Throws Error (kCorrupt) naming `what` for bytes that encode_event cannot have written for a model
// of this dimension.
Event decode_event(EventKind kind, std::string_view bytes, std::size_t dimension,
                   std::string_view what);

}  // namespace mcnb
