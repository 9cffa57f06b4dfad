#pragma once

#include "mcnb/bandit/hierarchical/evidence.h"
#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/hierarchy_prior.h"

namespace mcnb {

// Steps of empirical Bayes: each moves a part of the prior towards what makes the rewards more
// likely.

// Within the limits that all scales have.
double clamp_scale(double scale);

// The logarithm of a scale's own prior, up to a constant.
double log_prior(double scale);

// Whether a group's scale is never fitted: with trained features those of the hidden layer and of
// the constant.
bool is_fixed(const FeatureMap& map, FeatureGroup group);

// Moves the scale of every group of features, except the fixed ones and the shared constant's.
// Requires the posterior and the moments under `prior`, which is that of `scales`.
void improve_scales(const FeatureMap& map, const HierarchyPrior& prior,
                    const SharedPosterior& shared, const OwnMoments& own, HierarchyScales& scales);

// Moves the correlation of the own coefficients. Requires the moments under `prior`; the scales may
// have moved since.
void improve_correlation(const FeatureMap& map, const HierarchyPrior& prior, const OwnMoments& own,
                         HierarchyScales& scales);

}  // namespace mcnb
