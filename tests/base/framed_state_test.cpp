// States whose contents are kept apart from their frames.

#include "mcnb/base/framed_state.h"

#include <gtest/gtest.h>

#include <istream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include "mcnb/base/error.h"
#include "tests/base/state_file_cases.h"

namespace mcnb::framed_state_test {
namespace {

using namespace state_file_cases;

std::string contents_of(const Write& write) {
  std::string contents;
  StateContents buffer([&](std::string_view part) { contents += part; });
  std::ostream out(&buffer);
  StateWriter writer(out, "memory", kHeader);
  write(writer);
  writer.finish();
  return contents;
}

// What a reader of the state sees if its contents come in pieces of `step` bytes.
std::string framed(const std::string& contents, std::size_t step) {
  std::string_view left = contents;
  FramedState buffer([&] {
    const std::string_view piece = left.substr(0, step);
    left.remove_prefix(piece.size());
    return piece;
  });
  std::istream in(&buffer);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(FramedState, HasTheBytesThatAStreamWouldHave) {
  // The header takes 26 bytes of the first frame: one list ends exactly with a frame.
  for (const std::size_t count : {std::size_t{0}, std::size_t{10}, kFrameBytes - 26 - 8,
                                  kFrameBytes, 3 * kFrameBytes + 12345}) {
    const Write write = [&](StateWriter& writer) { writer.write_string(std::string(count, 'x')); };
    const std::string contents = contents_of(write);
    for (const std::size_t step : {std::size_t{1000}, kFrameBytes, 5 * kFrameBytes}) {
      EXPECT_EQ(framed(contents, step), state_of(write)) << count << " in steps of " << step;
    }
  }
}

TEST(StateContents, AreTheSameHoweverTheBytesCome) {
  const Write write = [](StateWriter& writer) {
    writer.write_string(std::string(kFrameBytes + 7, 'x'));
  };
  const std::string bytes = state_of(write);
  for (const std::size_t step : {1, 5, 17, 70'000}) {
    std::string contents;
    StateContents buffer([&](std::string_view part) { contents += part; });
    std::ostream out(&buffer);
    for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
      const std::string part = bytes.substr(begin, step);
      out.write(part.data(), static_cast<std::streamsize>(part.size()));
    }
    EXPECT_EQ(contents, contents_of(write));
  }
}

TEST(FramedState, ReadingPassesOnWhatThePiecesThrow) {
  const std::string contents =
      contents_of([](StateWriter& writer) { writer.write_string(std::string(100, 'x')); });
  int calls = 0;
  FramedState buffer([&]() -> std::string_view {
    if (++calls > 1) {
      throw Error(ErrorKind::kCorrupt, "the second piece");
    }
    return contents;
  });
  std::istream in(&buffer);
  in.exceptions(std::ios::badbit);
  try {
    StateReader reader(in, "memory", kHeader);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_STREQ(error.what(), "the second piece");
  }
}

}  // namespace
}  // namespace mcnb::framed_state_test
