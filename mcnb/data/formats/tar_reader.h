#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/data/formats/input.h"

namespace mcnb {

// The files in a tar archive, plain or compressed by gzip, one after the other, without unpacking.
class TarReader {
 public:
  // Throws Error (kInput) where it is no tar archive.
  explicit TarReader(const Input& input);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // The path of the next regular file, or nothing at the end. Throws Error (kInput) where the
  // archive is damaged.
  std::optional<std::string> next();

  // The bytes of that file; none where there are more than `most`, or holes between them.
  std::vector<std::uint8_t> contents(std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mcnb
