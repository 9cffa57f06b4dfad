#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/data/samples.h"

namespace mcnb {

// Samples made ready for rounds: at unit length. Those that are zero throughout have none, and are
// left out.
struct ClassificationData {
  Samples samples;
  std::uint64_t zeros_left_out = 0;

  bool operator==(const ClassificationData&) const = default;
};

// Works in the memory of the samples. Throws Error (kInput) where none is left.
ClassificationData prepare_classification(Samples samples);

// "60000 samples of 784 numbers in 10 classes; left out: ...".
std::string describe(const ClassificationData& data);

}  // namespace mcnb
