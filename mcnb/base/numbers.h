#pragma once

#include <string>

namespace mcnb {

// Writes whole numbers in scientific notation with digits only: "1e4" and "2.5e3" become "10000"
// and "2500". All other texts stay as they are.
std::string plain_digits(const std::string& text);

}  // namespace mcnb
