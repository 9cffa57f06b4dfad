#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/data/samples.h"

namespace mcnb {

// Sets labels and class names of samples. labels[k] is an index into `names`, all of which occur.
// Classes are sorted by value if all names are numbers, else by their bytes. Throws Error (kInput)
// naming the file if there are too many classes.
void set_class_labels(Samples& samples, const std::vector<std::uint32_t>& labels,
                      const std::vector<std::string>& names, const std::string& file);

}  // namespace mcnb
