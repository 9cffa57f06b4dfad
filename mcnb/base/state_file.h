#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mcnb {

// Saved states (docs/FORMATS.md): a magic number, then frames of at most 1 MiB, each with a
// checksum of its own, and an empty frame at the end. No byte reaches a reader before its frame's
// checksum has been verified, so damaged files are refused and never half understood.

// What a state holds. `kind` names the type ("network-pool"), `version` its layout.
struct StateHeader {
  std::string kind;
  std::uint32_t version = 1;
};

template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

class StateWriter {
 public:
  // Borrows the stream, which must be in binary mode. Errors are Error (kSystem) naming `name`.
  StateWriter(std::ostream& out, std::string name, const StateHeader& header);

  void write_bytes(const void* bytes, std::size_t count);

  template <Plain T>
  void write(const T& value) {
    write_bytes(&value, sizeof value);
  }

  // A count, then the values.
  template <Plain T>
  void write_all(std::span<const T> values) {
    write(static_cast<std::uint64_t>(values.size()));
    write_bytes(values.data(), values.size_bytes());
  }
  template <Plain T>
  void write_all(const std::vector<T>& values) {
    write_all(std::span<const T>(values));
  }
  void write_string(std::string_view text) { write_all(std::span(text.data(), text.size())); }

  // Writes what is left and the end mark. Without it the state reads as truncated.
  void finish();

 private:
  void write_frame();

  std::ostream& out_;
  std::string name_;
  std::vector<std::byte> frame_;
  std::uint64_t frames_ = 0;
};

class StateReader {
 public:
  // Borrows the stream. Throws Error (kCorrupt) naming `name` and the byte where the data is not
  // what a StateWriter wrote, is of another kind, or of a newer version than `newest`; kSystem
  // where the system cannot read it, which says nothing about the data.
  StateReader(std::istream& in, std::string name, const StateHeader& newest);

  // The version found.
  std::uint32_t version() const { return version_; }
  const std::string& name() const { return name_; }

  void read_bytes(void* bytes, std::size_t count);

  template <Plain T>
  T read() {
    T value;
    read_bytes(&value, sizeof value);
    return value;
  }

  // At most `limit` values; memory grows only as data really arrives.
  template <Plain T>
  std::vector<T> read_all(std::uint64_t limit) {
    const std::uint64_t count = read<std::uint64_t>();
    if (count > limit) {
      fail("a list is longer than it can be");
    }
    constexpr std::uint64_t kStep = (std::uint64_t{1} << 24) / sizeof(T) + 1;
    std::vector<T> values;
    while (values.size() < count) {
      const std::size_t old = values.size();
      values.resize(static_cast<std::size_t>(std::min<std::uint64_t>(count, old + kStep)));
      read_bytes(values.data() + old, (values.size() - old) * sizeof(T));
    }
    return values;
  }
  std::string read_string(std::uint64_t limit) {
    const std::vector<char> text = read_all<char>(limit);
    return {text.begin(), text.end()};
  }

  // Throws unless everything has been read and the end mark follows, and nothing after it.
  void finish();

  // For values that no writer would have written.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool next_frame();
  std::size_t read_some(void* bytes, std::size_t count);
  void read_raw(void* bytes, std::size_t count);

  std::istream& in_;
  std::string name_;
  std::uint32_t version_ = 0;
  std::vector<std::byte> frame_;
  std::size_t used_ = 0;
  std::uint64_t frames_ = 0;
  std::uint64_t position_ = 0;  // bytes taken from the stream
  bool ended_ = false;
};

// Saves a state to a file: either the whole new file takes the place of the old one, on disk, or
// the old one stays as it was.
void save_state_file(const std::filesystem::path& path, const StateHeader& header,
                     const std::function<void(StateWriter&)>& write);

// Opens a file, lets `read` read it, and demands that it read it to the end.
void load_state_file(const std::filesystem::path& path, const StateHeader& newest,
                     const std::function<void(StateReader&)>& read);

}  // namespace mcnb
