#include "mcnb/evaluate/policies/frequency_policy.h"

#include "mcnb/evaluate/estimate/log_health.h"
#include "mcnb/evaluate/readers/log_reader.h"

namespace mcnb {

FrequencyTarget::FrequencyTarget(const std::filesystem::path& log) {
  read_log_file(log, {.features = false}, [&](const LoggedRound& round) {
    counts_[round.slot][action_name(round, round.chosen)] += 1.0;
  });
}

void FrequencyTarget::probabilities(const RoundView& view, std::span<double> actions) {
  const std::map<std::string, double>& counts = counts_[view.round.slot];
  double sum = 0.0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto known = counts.find(action_name(view.round, i));
    actions[i] = known != counts.end() && view.round.is_eligible(i) ? known->second : 0.0;
    sum += actions[i];
  }
  if (sum == 0.0) {
    set_uniform(view.round, actions);
    return;
  }
  for (double& action : actions) {
    action /= sum;
  }
}

}  // namespace mcnb
