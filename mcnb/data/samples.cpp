#include "mcnb/data/samples.h"

#include <fmt/core.h>

#include <utility>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {

Samples join_samples(std::vector<Samples> parts) {
  check(!parts.empty(), "there are samples to join");
  Samples whole = std::move(parts.front());
  std::size_t rows = whole.size();
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const Samples& part = parts[k];
    if (part.dimension != whole.dimension) {
      throw Error(ErrorKind::kInput, fmt::format("part {} of the samples: expected {} numbers a "
                                                 "sample, found {}",
                                                 k + 1, whole.dimension, part.dimension));
    }
    if (part.class_names != whole.class_names) {
      throw Error(ErrorKind::kInput,
                  fmt::format("part {} of the samples: its {} classes are not the {} of the first",
                              k + 1, part.class_count(), whole.class_count()));
    }
    rows += part.size();
  }
  whole.values.reserve(rows * whole.dimension);
  whole.labels.reserve(rows);
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const Samples part = std::exchange(parts[k], {});
    whole.values.insert(whole.values.end(), part.values.begin(), part.values.end());
    whole.labels.insert(whole.labels.end(), part.labels.begin(), part.labels.end());
    whole.report.add(part.report);
  }
  return whole;
}

}  // namespace mcnb
