#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "mcnb/evaluate/policies/target_policies.h"

namespace mcnb {

// Chooses every action as often as a log did on average, slot by slot, whatever the context. It
// stands for a policy of which only the log is known, and has its value only as far as that policy
// did not look at the context or change over time.
class FrequencyTarget : public TargetPolicy {
 public:
  // Reads the whole log.
  explicit FrequencyTarget(const std::filesystem::path& log);

  // Where none of the eligible actions is in the log's slot, all are equally likely.
  void probabilities(const RoundView& view, std::span<double> actions) override;

 private:
  std::map<std::uint32_t, std::map<std::string, double>> counts_;  // by slot, then by action
};

}  // namespace mcnb
