#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace mcnb {

// Bytes in order. Not to be shared between threads.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Puts the next bytes where `bytes` points and returns how many: `count`, or fewer at the end.
  // Throws Error: kSystem where the system cannot read, kInput where compressed data is damaged.
  virtual std::size_t read(char* bytes, std::size_t count) = 0;

  // The share of all bytes, in 0 to 1, that has been read, or 0 where that is not known. A guess to
  // plan with, nothing more.
  virtual double progress() const = 0;
};

// Where a reader's bytes come from: a file, or memory (which is borrowed). Data compressed by gzip
// is recognised by its first bytes, whatever the file is called, and decompressed on the way.
class Input {
 public:
  static Input file(const std::filesystem::path& path);
  static Input memory(std::string name, std::span<const std::byte> bytes);

  // What messages call it.
  const std::string& name() const { return name_; }

  // From the first byte on; may be called again for files that can be read twice. Throws Error:
  // kSystem where there is no such file, kInput for archives of other kinds (zip, bzip2, xz, zstd).
  std::unique_ptr<ByteStream> open() const;

 private:
  std::string name_;
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  bool in_memory_ = false;
};

}  // namespace mcnb
