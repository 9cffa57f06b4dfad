#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/data/formats/binary_reader.h"

namespace mcnb {

// The first bytes of every .npy file.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Whether a file begins with them.
bool is_npy(const Input& input);

// The header of a .npy file.
struct NpyHeader {
  std::string type;  // "<f4"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;  // empty for a single value
};

// Reads up to the first byte of the data. Throws Error (kInput).
NpyHeader read_npy_header(BinaryReader& file);

}  // namespace mcnb
