#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mcnb {

// What could be chosen in a logged round.
struct RoundAction {
  std::string id;
  // JSON: an object, or an array of numbers that are the features themselves; empty: none.
  std::string features;

  bool operator==(const RoundAction&) const = default;
};

// One decision of one slot, as a log keeps it, and what came of it.
struct LoggedRound {
  std::string event = {};                 // empty if the log names no events
  std::string user = {};                  // empty if the log names no users
  std::optional<std::int64_t> time = {};  // microseconds since 1970

  // An event may fill several slots, such as positions on a page, one round each.
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;  // rounds of the event that follow one another in the log
  std::string slot_id = {};
  std::string slot_features = {};  // JSON, as of an action

  std::string context = {};  // a JSON object; empty: none
  std::vector<RoundAction> actions = {};
  std::vector<bool> eligible = {};  // by action; empty: all are
  std::uint32_t chosen = 0;
  double probability = 1.0;  // of the chosen action, under the policy that chose
  // Of all actions; empty if the log has only that of the chosen one.
  std::vector<double> probabilities = {};

  std::optional<double> reward = {};
  bool default_reward = false;    // no outcome was observed
  bool excluded = false;          // marked as not to be learned, such as an event nobody saw
  double drop_probability = 0.0;  // that the log left out a round like this one

  bool is_eligible(std::size_t action) const { return eligible.empty() || eligible[action]; }

  bool operator==(const LoggedRound&) const = default;
};

// Of a logged action. With less, squares of weights would be infinite.
inline constexpr double kLeastLoggedProbability = 1e-100;
inline constexpr double kProbabilityTolerance = 1e-3;  // of sums of probabilities that were rounded

// Throws Error (kInput) naming the field for a round that no policy can have played: no actions, an
// index out of range, an excluded action chosen, probabilities outside their range, numbers that
// are not finite.
void check_logged_round(const LoggedRound& round);

using VisitRound = std::function<void(const LoggedRound& round)>;

}  // namespace mcnb
