#include "mcnb/data/formats/binary_reader.h"

#include <fmt/core.h>

#include <array>

#include "mcnb/base/error.h"

namespace mcnb {

void BinaryReader::read(std::span<std::uint8_t> bytes, std::string_view what) {
  const std::size_t got = read_some(bytes);
  if (got < bytes.size()) {
    refuse(fmt::format("expected {} more bytes of {}, found the end of the file",
                       bytes.size() - got, what));
  }
}

std::size_t BinaryReader::read_some(std::span<std::uint8_t> bytes) {
  const std::size_t got = bytes_->read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  position_ += got;
  return got;
}

void BinaryReader::expect_end() {
  std::array<std::uint8_t, 1> byte;
  const std::uint64_t end = position_;
  if (read_some(byte) > 0) {
    position_ = end;
    refuse("expected the end of the file, found more");
  }
}

void BinaryReader::refuse(const std::string& message) const {
  throw Error(ErrorKind::kInput, fmt::format("{}: byte {}: {}", name_, position_, message));
}

}  // namespace mcnb
