#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mcnb/base/error.h"

namespace mcnb {

// Writes plain values one after the other, little-endian. The bodies of log rows are such bytes.
class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { append(&value, sizeof value); }

  void write_count(std::size_t count) { put(static_cast<std::uint32_t>(count)); }

  void write_string(std::string_view text) {
    write_count(text.size());
    append(text.data(), text.size());
  }

  template <class T>
  requires std::is_arithmetic_v<T>
  void put_all(std::span<const T> values) {
    write_count(values.size());
    append(values.data(), values.size_bytes());
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t count) {
    if (count > 0) {
      bytes_.append(static_cast<const char*>(data), count);
    }
  }

  std::string bytes_;
};

// Reads what a ByteWriter wrote. Throws Error (kCorrupt) if bytes are missing or left over.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <class T>
  requires std::is_arithmetic_v<T> T get() {
    T value;
    std::memcpy(&value, need(sizeof value).data(), sizeof value);
    return value;
  }

  std::size_t read_count(std::size_t limit) {
    const auto count = get<std::uint32_t>();
    if (count > limit) {
      fail("a list is longer than it can be");
    }
    return count;
  }

  std::string read_string(std::size_t limit) { return std::string(need(read_count(limit))); }

  template <class T>
  requires std::is_arithmetic_v<T> std::vector<T> get_all(std::size_t limit) {
    const std::size_t count = read_count(limit);
    const std::string_view from = need(count * sizeof(T));
    std::vector<T> values(count);
    if (count > 0) {
      std::memcpy(values.data(), from.data(), from.size());
    }
    return values;
  }

  bool at_end() const { return bytes_.empty(); }
  void finish() {
    if (!bytes_.empty()) {
      fail("more follows where it should end");
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kCorrupt, std::string(what_) + ": " + why);
  }

 private:
  std::string_view need(std::size_t count) {
    if (count > bytes_.size()) {
      fail("it ends where more was expected");
    }
    const std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }

  std::string_view bytes_;
  std::string_view what_;
};

}  // namespace mcnb
