#pragma once

#include <memory>

#include "mcnb/bandit/neural/confidence_matrix.h"
#include "mcnb/bandit/neural/neural_model.h"
#include "mcnb/bandit/policy.h"

namespace mcnb {

struct NeuUcbOptions {
  ConfidenceOptions confidence;
  NeuralOptions neural;
};

OptionTable<NeuUcbOptions> neuucb_option_table();

// NeuUCB-ONE, for policies that build on it.
PolicySize neuucb_size(const NeuUcbOptions& options, const PolicySetup& setup);
std::unique_ptr<Policy> make_neuucb_one(const NeuUcbOptions& options, const PolicySetup& setup);

}  // namespace mcnb
