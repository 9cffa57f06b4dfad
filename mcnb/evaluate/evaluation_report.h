#pragma once

#include <string>

#include "mcnb/base/text_table.h"
#include "mcnb/evaluate/evaluation.h"

namespace mcnb {

// An evaluation for people and programs.

// What the log can answer.
TextTable log_table(const Evaluation& evaluation);
// How the policies' weights look on all rounds.
TextTable weights_table(const Evaluation& evaluation);
// The estimates of all rounds, then of each slot: short numbers for people, or all digits.
TextTable estimates_table(const Evaluation& evaluation, bool all_digits);
// Policies that learned from the log.
TextTable learning_table(const Evaluation& evaluation);
// All of it, with all digits.
std::string evaluation_json(const Evaluation& evaluation);

}  // namespace mcnb
