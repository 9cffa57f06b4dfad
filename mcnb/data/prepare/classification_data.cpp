#include "mcnb/data/prepare/classification_data.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {

ClassificationData prepare_classification(Samples samples) {
  const std::size_t dimension = samples.dimension;
  std::size_t kept = 0;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const std::span<const float> row = samples.row(k);
    double squares = 0.0;  // a double can hold the square of any float
    for (const float value : row) {
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    if (squares == 0.0) {
      continue;
    }
    const double length = std::sqrt(squares);
    float* to = samples.values.data() + kept * dimension;
    for (std::size_t j = 0; j < dimension; ++j) {
      to[j] = static_cast<float>(static_cast<double>(row[j]) / length);
    }
    samples.labels[kept++] = samples.labels[k];
  }
  ClassificationData data;
  data.zeros_left_out = samples.size() - kept;
  samples.values.resize(kept * dimension);
  samples.labels.resize(kept);
  data.samples = std::move(samples);
  if (kept == 0) {
    throw Error(ErrorKind::kInput, fmt::format("no samples to make rounds of: {} were read, all "
                                               "zero",
                                               data.zeros_left_out));
  }
  return data;
}

std::string describe(const ClassificationData& data) {
  std::string text = fmt::format("{} samples of {} numbers in {} classes", data.samples.size(),
                                 data.samples.dimension, data.samples.class_count());
  if (data.zeros_left_out > 0) {
    text += fmt::format("; left out: {} that are zero throughout", data.zeros_left_out);
  }
  return text;
}

}  // namespace mcnb
