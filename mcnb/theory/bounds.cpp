#include "mcnb/theory/bounds.h"

#include <cmath>

namespace mcnb {

Bounds find_bounds(const BoundTerms& terms) {
  const double spread = terms.clusters * terms.rounds;  // q T
  Bounds bounds;
  bounds.paper =
      std::sqrt(spread * terms.difficulty) + std::sqrt(2.0 * spread * std::log(1.0 / terms.delta));
  bounds.naive = std::sqrt(terms.users * terms.rounds);
  if (terms.complexity) {
    const double factor = *terms.complexity + std::sqrt(terms.dimension);
    bounds.single = std::sqrt(terms.dimension * terms.rounds) * factor;
    bounds.clustered = std::sqrt(spread * terms.dimension) * factor;
    bounds.lemma = factor * factor * terms.dimension;
  }
  return bounds;
}

}  // namespace mcnb
