#include "mcnb/bandit/lesson_weights.h"

namespace mcnb {

bool takes_weights(const PolicySpec& spec) {
  return spec.name == "linucb" && resolved_options(spec).at("users") != "hybrid";
}

}  // namespace mcnb
