#pragma once

#include <span>

#include "mcnb/evaluate/evaluation.h"

namespace mcnb {

// Throws Error (kInput) with the remedy if any of the estimators uses weights: the log's decisions
// were all certain.
void refuse_certain_log(std::span<const Estimator> estimators);

// Adds what is wrong with a log, and which intervals hold less often than they say.
void add_warnings(const EvaluationOptions& options, Evaluation& evaluation);

}  // namespace mcnb
