#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/state_file.h"

// Small states, their bytes, and expectations that tests of state files share.
namespace mcnb::state_file_cases {

inline constexpr std::size_t kFrameBytes = std::size_t{1} << 20;
inline const StateHeader kHeader{"test-state", 3};

using Write = std::function<void(StateWriter&)>;
using Read = std::function<void(StateReader&)>;

inline std::string state_of(const Write& write, const StateHeader& header = kHeader) {
  std::ostringstream out(std::ios::binary);
  StateWriter writer(out, "memory", header);
  write(writer);
  writer.finish();
  return out.str();
}

inline void read_state(const std::string& bytes, const Read& read,
                       const StateHeader& newest = kHeader) {
  std::istringstream in(bytes, std::ios::binary);
  StateReader reader(in, "memory", newest);
  read(reader);
  reader.finish();
}

// A small value of every type, and a reader that requires all of them.
struct Small {
  std::uint32_t number = 0;
  std::vector<double> values;
  std::string text;

  bool operator==(const Small&) const = default;
};
inline const Small kSmall{0xfeedbeef, {0.0, -1.5, 1e300}, "a name"};

inline void write_small(StateWriter& writer) {
  writer.write(kSmall.number);
  writer.write_all(kSmall.values);
  writer.write_string(kSmall.text);
}

inline Small read_small(StateReader& reader) {
  Small small;
  small.number = reader.read<std::uint32_t>();
  small.values = reader.read_all<double>(100);
  small.text = reader.read_string(100);
  return small;
}

// Damaged data must be refused: the reader may never return a value that was not written.
inline void read_small_or_throw(StateReader& reader) {
  const Small small = read_small(reader);
  EXPECT_TRUE(small == kSmall) << "damaged data reached the reader";
}

// Expects an Error of this kind whose message names the file and holds `part`.
template <class Action>
inline void expect_error(ErrorKind kind, const std::string& name, const std::string& part,
                         Action&& action) {
  try {
    action();
    ADD_FAILURE() << "accepted; expected an error of " << name << ": " << part;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), kind) << message;
    EXPECT_TRUE(message.starts_with(name + ":")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

inline void expect_corrupt(const std::string& bytes, const std::string& part = "",
                           const Read& read = read_small_or_throw) {
  expect_error(ErrorKind::kCorrupt, "memory", part, [&] { read_state(bytes, read); });
}

// Builds frames in the file format, so that tests can make wrong states with valid checksums.
template <class Number>
inline std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string frame(const std::string& payload, std::uint64_t number) {
  return bytes_of<std::uint64_t>(payload.size()) +
         bytes_of<std::uint64_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), number + 1)) +
         payload;
}

inline std::string header_bytes(const StateHeader& header) {
  return bytes_of<std::uint64_t>(header.kind.size()) + header.kind + bytes_of(header.version);
}

inline const std::string kMagic = "MCNBsta1";

}  // namespace mcnb::state_file_cases
