#pragma once

#include <optional>

namespace mcnb {

// The quantities in the bounds, with the paper's symbols.
struct BoundTerms {
  double users = 1.0;     // n
  double rounds = 1.0;    // T
  double clusters = 1.0;  // q
  double delta = 0.1;
  double difficulty = 0.0;           // S*
  double dimension = 0.0;            // d~
  std::optional<double> complexity;  // S
};

// Bounds of the regret with all hidden constants set to 1, and the lemma's bound of S*. Bounds that
// need S are nullopt without it.
struct Bounds {
  double paper = 0.0;               // sqrt(q T S*) + sqrt(2 q T log(1 / delta))
  std::optional<double> single;     // sqrt(d~ T) (S + sqrt(d~)), one bandit
  std::optional<double> clustered;  // sqrt(q d~ T) (S + sqrt(d~)), q clusters
  double naive = 0.0;               // sqrt(n T)
  std::optional<double> lemma;      // (sqrt(d~) + S)^2 d~, which S* should not exceed
};
Bounds find_bounds(const BoundTerms& terms);

}  // namespace mcnb
