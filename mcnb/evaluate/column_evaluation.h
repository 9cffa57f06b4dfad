#pragma once

#include "mcnb/data/formats/input.h"
#include "mcnb/evaluate/evaluation.h"

namespace mcnb {

// Evaluates a policy whose probabilities stand in a table (readers/column_reader.h), in one pass
// and in bounded memory. Of the options the estimators, the range of rewards, replicates and seed
// count; without columns of a model, the estimators that use one are left out. Throws what
// evaluate_log and ColumnReader throw.
struct ColumnEvaluation {
  Evaluation evaluation;
  std::uint64_t skipped = 0;  // damaged lines
};
ColumnEvaluation evaluate_columns(const Input& input, const EvaluationOptions& options,
                                  std::uint64_t skip_bad);

}  // namespace mcnb
