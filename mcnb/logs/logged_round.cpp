#include "mcnb/logs/logged_round.h"

#include <fmt/core.h>

#include <cmath>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostLoggedActions = 10'000;
constexpr double kLargestLoggedReward = 1e6;

void require(bool sound, const char* field, const std::string& message) {
  if (!sound) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {}", field, message));
  }
}

}  // namespace

void check_logged_round(const LoggedRound& round) {
  const std::size_t count = round.actions.size();
  require(count > 0 && count <= kMostLoggedActions, "actions",
          fmt::format("expected 1 to {}, found {}", kMostLoggedActions, count));
  require(round.chosen < count, "chosen action",
          fmt::format("expected an index below {}, found {}", count, round.chosen));
  require(round.eligible.empty() || round.eligible.size() == count, "eligible",
          fmt::format("expected {} values, found {}", count, round.eligible.size()));
  require(round.is_eligible(round.chosen), "chosen action",
          fmt::format("expected one that is not excluded, found {}", round.chosen));
  require(
      round.probability >= kLeastLoggedProbability && round.probability <= 1.0, "probability",
      fmt::format(
          "expected a number above 0 (at least {:g}), at most 1, for the chosen action, found {}",
          kLeastLoggedProbability, round.probability));
  require(
      round.probabilities.empty() || round.probabilities.size() == count, "probabilities",
      fmt::format("expected {}, one for each action, found {}", count, round.probabilities.size()));
  for (const double probability : round.probabilities) {
    require(probability >= 0.0 && probability <= 1.0, "probabilities",
            fmt::format("expected numbers in [0, 1], found {}", probability));
  }
  require(round.drop_probability >= 0.0 && round.drop_probability < 1.0, "drop probability",
          fmt::format("expected a number in [0, 1), found {}", round.drop_probability));
  if (round.reward) {
    require(std::abs(*round.reward) <= kLargestLoggedReward, "reward",
            fmt::format("expected a number of at most {:g} in size, found {}", kLargestLoggedReward,
                        *round.reward));
  }
}

}  // namespace mcnb
