#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"
#include "mcnb/serve/model/model_options.h"
#include "mcnb/serve/server.h"

// What something adds to the processor time of a decision, in runs that alternate between a model
// without it and one with it. Both get the same requests and rewards.
namespace mcnb::bench {

// A model of a service.
struct ServedModel {
  const Server* server = nullptr;
  std::string name;
};

struct AddedCost {
  double without = 0.0;        // processor seconds of a decision with its reward
  double with = 0.0;           // the same
  std::vector<double> ratios;  // of the pairs of runs, by size

  // As a table, in which `what` is the name of what was added.
  void show(const std::string& what, Display& display) const;
};

// Plays so many pairs of runs. Both models must have these options.
AddedCost measure_added_cost(const ModelOptions& options, const ServedModel& without,
                             const ServedModel& with, std::uint64_t pairs);

}  // namespace mcnb::bench
