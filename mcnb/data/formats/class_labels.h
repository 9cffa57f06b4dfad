#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/data/samples.h"

namespace mcnb {

// Gives samples their classes from labels as they were met: labels[k] is a number into `names`,
// each of which was met. Classes come in the order of numbers where all names are numbers, else in
// that of their bytes. Throws Error (kInput) naming the file where there are more than fit.
void set_classes(Samples& samples, const std::vector<std::uint32_t>& labels,
                 const std::vector<std::string>& names, const std::string& file);

}  // namespace mcnb
