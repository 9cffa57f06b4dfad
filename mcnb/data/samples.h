#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/data/formats/read_report.h"

namespace mcnb {

// Labelled samples: row k has `dimension` numbers and belongs to class labels[k].
//
// The numbers are those of the file, not scaled: bytes of pictures are 0 to 255. (Environments
// bring every sample to unit length, so a common factor would change nothing.)
struct Samples {
  std::size_t dimension = 0;
  std::vector<float> values;             // size() rows of `dimension` finite numbers
  std::vector<std::uint16_t> labels;     // each below class_names.size()
  std::vector<std::string> class_names;  // by number
  ReadReport report;

  std::size_t size() const { return labels.size(); }
  std::size_t class_count() const { return class_names.size(); }
  std::span<const float> row(std::size_t k) const {
    return {values.data() + k * dimension, dimension};
  }

  bool operator==(const Samples&) const = default;
};

// Joins parts in order: a training and a test file, or the batches of one set. Throws Error
// (kInput) unless dimension and classes are equal in all parts. Requires at least one part.
Samples join_samples(std::vector<Samples> parts);

}  // namespace mcnb
