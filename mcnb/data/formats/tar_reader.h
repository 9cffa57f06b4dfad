#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/data/formats/input.h"

namespace mcnb {

// Reads the files in a tar archive, plain or compressed by gzip, in order, without unpacking it.
class TarReader {
 public:
  // Throws Error (kInput) if it is not a tar archive.
  explicit TarReader(const Input& input);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // The path of the next regular file; nullopt at the end. Throws Error (kInput) if the archive is
  // damaged.
  std::optional<std::string> next();

  // The bytes of that file; empty if there are more than `most`, or if the file is sparse.
  std::vector<std::uint8_t> contents(std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mcnb
