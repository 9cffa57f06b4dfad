#pragma once

#include <string>
#include <vector>

#include "mcnb/experiment/run/rank_correlation.h"

namespace mcnb {

// Keeps the results of compare_ranks beside the cells of a store.
class RankMemory {
 public:
  // The store and the experiment are borrowed.
  RankMemory(const CellStore& store, const Experiment& experiment,
             const std::vector<PolicySpec>& policies);

  // Results of this program with this data, or, with `of_any_program`, of any. Empty if there are
  // none.
  std::vector<RankAgreement> find(bool of_any_program) const;

  void keep(const std::vector<RankAgreement>& results) const;

 private:
  std::string program_and_data() const;

  const CellStore& store_;
  const Experiment& experiment_;
  std::string description_;  // of what was compared
};

}  // namespace mcnb
