#pragma once

#include <memory>
#include <vector>

#include "mcnb/bandit/policy.h"

namespace mcnb {

// NeuUCB-ONE: one network for all users. Scores an arm by f(x) + alpha sqrt(g^T Z^-1 g), where g is
// the gradient of f at x and Z = lambda I + the sum of g g^T over the arms whose rewards were
// learned, each g as it was when its reward came (feedback may be late, and a round without any
// has taught nothing). Start data count as such arms.
//
// training = replay: after every so many rewards the network is trained on all samples, in random
// order, from where it stands, with a fresh optimiser. training = online: one gradient step on each
// sample as it comes.
//
// Z is kept whole up to 3,500 parameters and by its diagonal beyond. Arms cost time in proportion
// to their own features, not to the whole vector that a block is part of (with a whole Z: to its
// square, and learning touches all of Z).
std::unique_ptr<Policy> make_neuucb_one(const OptionValues& options, const PolicySetup& setup);
std::vector<OptionHelp> neuucb_option_help();
// Throws Error (kUsage) as make_neuucb_one would, but for what depends on the setup.
OptionValues resolve_neuucb_options(const OptionValues& options);

}  // namespace mcnb
