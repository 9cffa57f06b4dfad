#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace mcnb {

// What the time series hear of, once it is committed. Models are named by their ids, events and
// users by the hashes of their names.

struct DecisionSeen {
  std::uint32_t model = 0;
  std::uint64_t event = 0;
  std::uint64_t user = 0;
  std::int64_t time = 0;      // milliseconds since 1970
  float propensity = 1.0F;    // of the answer
  std::uint32_t actions = 1;  // from which it was chosen
  bool first = false;         // the answer is the first of these
  bool explored = false;      // the answer is not the policy's own choice
  std::string action;         // the answer
};

// An event waits no longer: its reward is known.
struct EventEnded {
  std::uint32_t model = 0;
  std::uint64_t event = 0;
  std::optional<float> reward;  // nullopt if the event was never activated
  bool rewarded = false;        // false: it is the default reward
};

struct UserForgotten {
  std::uint32_t model = 0;
  std::uint64_t user = 0;
};

struct SettingsSeen {
  std::uint32_t model = 0;
  std::int64_t time = 0;
  std::string settings;  // "epsilon = 0.1, mode = online"
};

struct ModelRemoved {
  std::uint32_t model = 0;
};

using Observation =
    std::variant<DecisionSeen, EventEnded, UserForgotten, SettingsSeen, ModelRemoved>;

}  // namespace mcnb
