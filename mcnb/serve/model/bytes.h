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

// Plain values one after the other, little-endian: the bodies of log rows.
class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { append(&value, sizeof value); }

  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }

  template <class T>
  requires std::is_arithmetic_v<T>
  void put_all(std::span<const T> values) {
    put(static_cast<std::uint32_t>(values.size()));
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

// Reads them back. Throws Error (kCorrupt) where bytes are missing or left over.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <class T>
  requires std::is_arithmetic_v<T> T get() {
    T value;
    std::memcpy(&value, need(sizeof value).data(), sizeof value);
    return value;
  }

  std::string get_text(std::size_t limit) {
    const auto size = get<std::uint32_t>();
    if (size > limit) {
      fail("a text is longer than it can be");
    }
    return std::string(need(size));
  }

  template <class T>
  requires std::is_arithmetic_v<T> std::vector<T> get_all(std::size_t limit) {
    const auto count = get<std::uint32_t>();
    if (count > limit) {
      fail("a list is longer than it can be");
    }
    const std::string_view from = need(count * sizeof(T));
    std::vector<T> values(count);
    if (count > 0) {
      std::memcpy(values.data(), from.data(), from.size());
    }
    return values;
  }

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
