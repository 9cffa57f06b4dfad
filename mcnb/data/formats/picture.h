#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mcnb {

// The pixels of a PNG file in shades of grey, row by row; or none, and why it could not be read.
struct Picture {
  std::vector<std::uint8_t> pixels;
  std::string fault;  // empty if it could be read
};

// Decodes a PNG file that must have this size. Pictures of any depth and colour are converted.
Picture decode_png(std::span<const std::uint8_t> file, std::uint32_t width, std::uint32_t height);

}  // namespace mcnb
