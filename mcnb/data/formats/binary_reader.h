#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mcnb/data/formats/input.h"

namespace mcnb {

// Reads a binary file from its first byte to its last. Throws Error (kInput) naming file and byte.
class BinaryReader {
 public:
  explicit BinaryReader(const Input& input) : name_(input.name()), bytes_(input.open()) {}

  // Fills all of `bytes`. `what` says in the message what is missing.
  void read(std::span<std::uint8_t> bytes, std::string_view what);

  // Reads up to bytes.size() bytes and returns how many: fewer only at the end.
  std::size_t read_some(std::span<std::uint8_t> bytes);

  // Throws unless the file ends here.
  void expect_end();

  std::uint64_t position() const { return position_; }
  const std::string& name() const { return name_; }

  // Throws "NAME: byte POSITION: MESSAGE".
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  std::string name_;
  std::unique_ptr<ByteStream> bytes_;
  std::uint64_t position_ = 0;
};

}  // namespace mcnb
