#pragma once

#include <string>
#include <string_view>

namespace mcnb {

// Throws RequestRefused naming `field` unless the text is 1 to kLongestId bytes of UTF-8.
void check_id(std::string_view id, const char* field);

// 128 random bits of the operating system, as 32 hexadecimal digits.
std::string random_id();

}  // namespace mcnb
