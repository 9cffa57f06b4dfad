#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mcnb {

/// Saved states (docs/FORMATS.md): a magic number, then frames of at most 1 MiB, each with its own
/// checksum, and an empty frame at the end. A reader gets no byte before the checksum of its frame
/// has been verified, so damaged files are refused as a whole.

/// What a state holds. `kind` names the type ("network-pool"), `version` its layout.
struct StateHeader {
  std::string kind;
  std::uint32_t version = 1;
};

/// Lists the members of a struct that states hold as raw bytes, in the order of the file. The
/// struct names its list `Stored`; a struct whose layout differs from its list does not compile:
///   struct StepCounts {
///     std::uint64_t training = 0;
///     std::uint64_t adaptation = 0;
///     using Stored = StoredInOrder<&StepCounts::training, &StepCounts::adaptation>;
///   };
template <auto... members>
struct StoredInOrder {
  template <class Struct>
  static consteval bool describes() {
    static_assert(std::is_trivially_copyable_v<Struct> && std::is_standard_layout_v<Struct>,
                  "a stored struct consists of plain values");
    static_assert((sizeof(std::declval<Struct>().*members) + ...) == sizeof(Struct),
                  "a stored struct has no padding and lists all of its members");
    const std::size_t positions[] = {position_of<Struct>(members)...};
    return std::is_sorted(std::begin(positions), std::end(positions));
  }

 private:
  /// A byte of the struct that belongs to the member: the first that differs if the member is 1. (A
  /// constant expression may not compare addresses of members of different types; Clang refuses
  /// it.)
  template <class Struct, class Member>
  static consteval std::size_t position_of(Member Struct::*member) {
    Struct value{};
    value.*member = Member{};
    const auto zero = std::bit_cast<std::array<unsigned char, sizeof(Struct)>>(value);
    value.*member = static_cast<Member>(1);
    const auto one = std::bit_cast<std::array<unsigned char, sizeof(Struct)>>(value);
    return static_cast<std::size_t>(std::ranges::mismatch(zero, one).in1 - zero.begin());
  }
};

template <class T>
consteval bool has_stored_layout() {
  static_assert(T::Stored::template describes<T>(), "members are stored in the order of the file");
  return true;
}

template <class T>
concept ListsMembers = requires {
  typename T::Stored;
};

/// Values whose bytes a state may hold: numbers, ids, and structs that list their members.
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
    (ListsMembers<T>&& has_stored_layout<T>());

class StateWriter {
 public:
  /// Borrows the stream, which must be in binary mode. Errors are Error (kSystem) naming `name`.
  StateWriter(std::ostream& out, std::string name, const StateHeader& header);

  void write_bytes(const void* bytes, std::size_t count);

  template <Plain T>
  void write(const T& value) {
    write_bytes(&value, sizeof value);
  }

  void write_count(std::size_t count) { write(static_cast<std::uint64_t>(count)); }

  /// Writes a count, then the values.
  template <Plain T>
  void write_all(std::span<const T> values) {
    write_count(values.size());
    write_bytes(values.data(), values.size_bytes());
  }
  template <Plain T>
  void write_all(const std::vector<T>& values) {
    write_all(std::span<const T>(values));
  }
  void write_string(std::string_view text) { write_all(std::span(text.data(), text.size())); }

  /// Writes the remaining bytes and the end mark. A state without finish() reads as truncated.
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
  /// Borrows the stream. Throws Error naming `name`: kCorrupt, with the byte, if the data is
  /// damaged, of another kind, or of a newer version than `newest`; kSystem if the system cannot
  /// read it.
  StateReader(std::istream& in, std::string name, const StateHeader& newest);

  /// The version of the data.
  std::uint32_t version() const { return version_; }
  const std::string& name() const { return name_; }

  void read_bytes(void* bytes, std::size_t count);

  template <Plain T>
  T read() {
    T value;
    read_bytes(&value, sizeof value);
    return value;
  }

  /// Reads a count, and refuses one above `limit`.
  std::uint64_t read_count(std::uint64_t limit) {
    const auto count = read<std::uint64_t>();
    if (count > limit) {
      fail("a list is longer than it can be");
    }
    return count;
  }

  /// Reads a list of at most `limit` values. Memory grows only as data arrives.
  template <Plain T>
  std::vector<T> read_all(std::uint64_t limit) {
    const std::uint64_t count = read_count(limit);
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

  /// Throws unless everything has been read and the end mark is the last thing in the stream.
  void finish();

  /// Throws Error (kCorrupt): for values that no writer would have written.
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
  std::uint64_t position_ = 0;  ///< bytes taken from the stream
  bool ended_ = false;
};

/// Saves a state to a file, which is replaced as a whole or stays as it was (base/files.h).
void save_state_file(const std::filesystem::path& path, const StateHeader& header,
                     const std::function<void(StateWriter&)>& write);

/// Opens a file and calls `read`, which must read it to the end.
void load_state_file(const std::filesystem::path& path, const StateHeader& newest,
                     const std::function<void(StateReader&)>& read);

}  // namespace mcnb
