#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/data/samples.h"

namespace mcnb {

// Samples prepared for rounds: scaled to unit length. Samples of zeros only are left out.
struct ClassificationData {
  Samples samples;
  std::uint64_t zeros_left_out = 0;

  bool operator==(const ClassificationData&) const = default;
};

// Works in the memory of the samples. Throws Error (kInput) if no sample is left.
ClassificationData prepare_classification(Samples samples);

// "60000 samples of 784 numbers in 10 classes; left out: ...".
std::string describe(const ClassificationData& data);

}  // namespace mcnb
