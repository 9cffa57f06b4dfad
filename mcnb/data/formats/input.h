#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace mcnb {

// A stream of bytes. Threads must not share one.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads the next bytes and returns how many: `count`, or fewer at the end. Throws Error: kSystem
  // if the system cannot read, kInput if compressed data is damaged.
  virtual std::size_t read(char* bytes, std::size_t count) = 0;

  // The share of all bytes, from 0 to 1, that has been read; 0 if it is unknown. Only an estimate.
  virtual double progress() const = 0;
};

// The source of a reader's bytes: a file, or memory (which is borrowed). Data compressed by gzip is
// recognised by its first bytes, not by the name of the file, and decompressed while it is read.
class Input {
 public:
  static Input file(const std::filesystem::path& path);
  static Input memory(std::string name, std::span<const std::byte> bytes);

  // The name for messages.
  const std::string& name() const { return name_; }

  // Starts at the first byte; may be called again for files that can be read twice. Throws Error:
  // kSystem if the file does not exist, kInput for other archives (zip, bzip2, xz, zstd).
  std::unique_ptr<ByteStream> open() const;

 private:
  std::string name_;
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  bool in_memory_ = false;
};

}  // namespace mcnb
