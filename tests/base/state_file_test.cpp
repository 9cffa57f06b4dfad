#include "mcnb/base/state_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "tests/base/state_file_cases.h"

namespace mcnb::state_file_test {
namespace {

using namespace state_file_cases;

struct Counts {
  std::uint32_t users = 0;
  float reward = 0.0F;
  std::uint64_t rounds = 0;

  using Stored = StoredInOrder<&Counts::users, &Counts::reward, &Counts::rounds>;
};
struct Unlisted {
  std::uint32_t users = 0;
};
static_assert(Plain<double> && Plain<ErrorKind> && Plain<Counts>);
static_assert(!Plain<Unlisted> && !Plain<const char*> && !Plain<std::string>);
static_assert(!StoredInOrder<&Counts::reward, &Counts::users, &Counts::rounds>::describes<Counts>(),
              "the order of the members counts");

TEST(StateFile, TheBytesAreThoseOfTheFormat) {
  const std::string payload =
      header_bytes(kHeader) + bytes_of<std::uint32_t>(7) + bytes_of<std::uint64_t>(3) + "abc";
  EXPECT_EQ(state_of([](StateWriter& writer) {
              writer.write<std::uint32_t>(7);
              writer.write_string("abc");
            }),
            kMagic + frame(payload, 0) + frame("", 1));
}

// A copy of a file of the first version, which today's reader must still accept.
TEST(StateFile, AStateOfTheFirstVersionIsStillRead) {
  static constexpr unsigned char kSaved[] = {
      0x4d, 0x43, 0x4e, 0x42, 0x73, 0x74, 0x61, 0x31, 0x48, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x95, 0x90, 0xed, 0x07, 0xea, 0x79, 0xc4, 0x84, 0x0a, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x74, 0x65, 0x73, 0x74, 0x2d, 0x73, 0x74, 0x61, 0x74, 0x65,
      0x03, 0x00, 0x00, 0x00, 0xef, 0xbe, 0xed, 0xfe, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0xf8, 0xbf, 0x9c, 0x75, 0x00, 0x88, 0x3c, 0xe4, 0x37, 0x7e, 0x06, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x61, 0x20, 0x6e, 0x61, 0x6d, 0x65, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa0, 0xfd, 0xfc, 0xd1, 0xec, 0xf7, 0x6c, 0xf3};
  const std::string bytes(reinterpret_cast<const char*>(kSaved), sizeof kSaved);
  EXPECT_EQ(state_of(write_small), bytes);
  read_state(bytes, [](StateReader& reader) { EXPECT_EQ(read_small(reader), kSmall); });
}

TEST(StateFile, ScalarsComeBackBitForBit) {
  enum class Colour : std::uint8_t { kRed = 200 };
  const double nan = std::nan("77");
  const std::string bytes = state_of([&](StateWriter& writer) {
    writer.write(true);
    writer.write(std::int8_t{-128});
    writer.write(std::numeric_limits<std::uint64_t>::max());
    writer.write(-0.0F);
    writer.write(std::numeric_limits<double>::denorm_min());
    writer.write(nan);
    writer.write(Colour::kRed);
    writer.write(Counts{.users = 9, .reward = 0.1F, .rounds = 5});
  });
  read_state(bytes, [&](StateReader& reader) {
    EXPECT_EQ(reader.read<bool>(), true);
    EXPECT_EQ(reader.read<std::int8_t>(), -128);
    EXPECT_EQ(reader.read<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
    EXPECT_TRUE(std::signbit(reader.read<float>()));
    EXPECT_EQ(reader.read<double>(), std::numeric_limits<double>::denorm_min());
    EXPECT_EQ(bytes_of(reader.read<double>()), bytes_of(nan));
    EXPECT_EQ(reader.read<Colour>(), Colour::kRed);
    const Counts counts = reader.read<Counts>();
    EXPECT_EQ(counts.users, 9U);
    EXPECT_EQ(counts.reward, 0.1F);
    EXPECT_EQ(counts.rounds, 5U);
    EXPECT_EQ(reader.name(), "memory");
    EXPECT_EQ(reader.version(), 3U);
  });
}

TEST(StateFile, ListsAndStringsComeBack) {
  const std::vector<std::uint16_t> numbers{1, 2, 65535};
  const std::string text("zero \0 inside, \xff\n", 17);
  const std::string bytes = state_of([&](StateWriter& writer) {
    writer.write_all(numbers);
    writer.write_all(std::vector<double>{});
    writer.write_all(std::span(numbers).first(1));
    writer.write_string(text);
    writer.write_string("");
  });
  read_state(bytes, [&](StateReader& reader) {
    EXPECT_EQ(reader.read_all<std::uint16_t>(3), numbers);
    EXPECT_EQ(reader.read_all<double>(0), std::vector<double>{});
    EXPECT_EQ(reader.read_all<std::uint16_t>(1), std::vector<std::uint16_t>{1});
    EXPECT_EQ(reader.read_string(100), text);
    EXPECT_EQ(reader.read_string(100), "");
  });
}

TEST(StateFile, DataOfManyFramesComesBack) {
  Rng rng(1, Stream::kTest);
  std::vector<std::uint64_t> numbers(3 * kFrameBytes / sizeof(std::uint64_t) + 1000);
  std::ranges::generate(numbers, [&] { return rng.bits64(); });
  const std::string bytes = state_of([&](StateWriter& writer) {
    writer.write<char>('x');  // so that numbers lie across the frames' ends
    writer.write_all(numbers);
    writer.write_string("the end");
  });
  read_state(bytes, [&](StateReader& reader) {
    EXPECT_EQ(reader.read<char>(), 'x');
    EXPECT_TRUE(reader.read_all<std::uint64_t>(numbers.size()) == numbers);
    EXPECT_EQ(reader.read_string(10), "the end");
  });
}

TEST(StateFile, AFrameMayEndExactlyWhereTheStateDoes) {
  const std::size_t whole = kFrameBytes - header_bytes(kHeader).size();
  for (const std::size_t size : {whole - 1, whole, whole + 1, whole + kFrameBytes}) {
    const std::string data(size, 'd');
    const std::string bytes =
        state_of([&](StateWriter& writer) { writer.write_bytes(data.data(), data.size()); });
    read_state(bytes, [&](StateReader& reader) {
      std::string found(size, '\0');
      reader.read_bytes(found.data(), found.size());
      EXPECT_TRUE(found == data) << size;
    });
    expect_corrupt(bytes, "the state ends too early", [&](StateReader& reader) {
      std::string found(size + 1, '\0');
      reader.read_bytes(found.data(), found.size());
    });
    expect_corrupt(bytes, "more data follows the expected end", [&](StateReader& reader) {
      std::string found(size - 1, '\0');
      reader.read_bytes(found.data(), found.size());
    });
  }
}

TEST(StateFile, AnyChangedByteIsNoticed) {
  const std::string good = state_of(write_small);
  read_state(good, read_small_or_throw);
  for (std::size_t position = 0; position < good.size(); ++position) {
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[position] = static_cast<char>(bad[position] ^ change);
      SCOPED_TRACE("byte " + std::to_string(position) + " xor " + std::to_string(change));
      expect_corrupt(bad);
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

TEST(StateFile, AStateCutOffAnywhereIsRefused) {
  const std::string good = state_of(write_small);
  for (std::size_t length = 0; length < good.size(); ++length) {
    SCOPED_TRACE(length);
    expect_corrupt(good.substr(0, length),
                   length < kMagic.size() ? "magic" : "ends at byte " + std::to_string(length));
  }
}

TEST(StateFile, BytesAfterTheEndAreRefused) {
  const std::string good = state_of(write_small);
  for (const std::string& more : {std::string(1, '\0'), std::string("x"), good, frame("", 2)}) {
    expect_corrupt(good + more, "more bytes follow the end mark");
  }
}

TEST(StateFile, ExchangedRepeatedAndMissingFramesAreNoticed) {
  const std::string payload(3 * kFrameBytes - header_bytes(kHeader).size(), 'p');
  const std::string good =
      state_of([&](StateWriter& writer) { writer.write_bytes(payload.data(), payload.size()); });
  const std::size_t step = 2 * sizeof(std::uint64_t) + kFrameBytes;
  const auto part = [&](std::size_t number) {
    return good.substr(kMagic.size() + number * step, step);  // the last is the end mark
  };
  const auto read_payload = [&](StateReader& reader) {
    std::string found(payload.size(), '\0');
    reader.read_bytes(found.data(), found.size());
  };
  ASSERT_EQ(kMagic + part(0) + part(1) + part(2) + part(3), good);
  read_state(good, read_payload);
  // Frames 1 and 2 hold the same bytes; only their numbers tell them apart.
  expect_corrupt(kMagic + part(0) + part(2) + part(1) + part(3), "checksum", read_payload);
  expect_corrupt(kMagic + part(0) + part(1) + part(1) + part(3), "checksum", read_payload);
  expect_corrupt(kMagic + part(0) + part(2) + part(3), "checksum", read_payload);
  expect_corrupt(kMagic + part(0) + part(1) + part(3), "checksum", read_payload);
  expect_corrupt(kMagic + part(1) + part(2) + part(3), "checksum", read_payload);
  expect_corrupt(kMagic + part(0) + part(1) + part(2), "truncated",
                 [&](StateReader& reader) { read_payload(reader); });
}

TEST(StateFile, GarbageIsRefused) {
  Rng rng(2, Stream::kTest);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string garbage(rng.below(200), '\0');
    for (char& c : garbage) {
      c = static_cast<char>(rng.below(256));
    }
    expect_corrupt(garbage);
    expect_corrupt(kMagic + garbage);
    const std::string plausible_length = bytes_of<std::uint64_t>(rng.below(200));
    expect_corrupt(kMagic + plausible_length + garbage);
  }
}

TEST(StateFile, ValuesThatNoWriterWritesAreRefusedAlthoughTheirChecksumsMatch) {
  const std::string end = frame("", 1);
  const auto first = [](const std::string& payload) { return kMagic + frame(payload, 0); };
  expect_corrupt(first(""), "the state ends too early");
  expect_corrupt(first(header_bytes({std::string(65, 'k'), 1})) + end, "longer than it can be");
  expect_corrupt(first(header_bytes({kHeader.kind, 0})) + end, "version 0");
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  expect_corrupt(first(bytes_of(most)) + end, "longer than it can be");
  const std::string payload = header_bytes(kHeader);
  const std::string long_payload = payload + std::string(kFrameBytes + 1 - payload.size(), 'x');
  expect_corrupt(first(long_payload) + end, "longer than 1 MiB");
}

TEST(StateFile, AnotherKindIsRefused) {
  const std::string bytes = state_of(write_small, {"other-state", 3});
  expect_corrupt(bytes, "holds a other-state, expected a test-state");
  expect_corrupt(state_of(write_small, {"test-stat", 3}), "expected a test-state");
  expect_corrupt(state_of(write_small, {"", 3}), "expected a test-state");
}

TEST(StateFile, OlderVersionsAreReadAndNewerOnesRefused) {
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    const std::string bytes = state_of(write_small, {kHeader.kind, version});
    read_state(bytes, [&](StateReader& reader) {
      EXPECT_EQ(reader.version(), version);
      EXPECT_EQ(read_small(reader), kSmall);
    });
  }
  expect_corrupt(state_of(write_small, {kHeader.kind, 4}),
                 "test-state version 4, this program reads versions 1 to 3");
}

TEST(StateFile, ReadingMoreThanWasWrittenIsRefused) {
  expect_corrupt(state_of(write_small), "ends too early", [](StateReader& reader) {
    read_small_or_throw(reader);
    reader.read<char>();
  });
}

TEST(StateFile, ReadingLessThanWasWrittenIsRefused) {
  expect_corrupt(state_of(write_small), "more data follows the expected end",
                 [](StateReader& reader) { reader.read<std::uint32_t>(); });
}

TEST(StateFile, AListLongerThanTheLimitIsRefused) {
  const std::string bytes = state_of([](StateWriter& writer) {
    writer.write_all(std::vector<int>{1, 2, 3});
  });
  read_state(bytes, [](StateReader& reader) { EXPECT_EQ(reader.read_all<int>(3).size(), 3U); });
  expect_corrupt(bytes, "longer than it can be",
                 [](StateReader& reader) { reader.read_all<int>(2); });
}

TEST(StateFile, AListThatClaimsToBeHugeTakesNoMemoryBeforeItsDataArrives) {
  const std::uint64_t claimed = std::uint64_t{1} << 60;
  const std::string bytes = state_of([&](StateWriter& writer) {
    writer.write(claimed);
    writer.write(1.0);
  });
  expect_corrupt(bytes, "ends too early",
                 [&](StateReader& reader) { reader.read_all<double>(claimed); });
}

TEST(StateFile, AReaderMayRefuseWhatItDoesNotBelieve) {
  expect_corrupt(state_of(write_small), "more users than networks",
                 [](StateReader& reader) { reader.fail("more users than networks"); });
}

TEST(StateFileDeathTest, AKindWithALongNameIsABug) {
  EXPECT_EXIT(state_of(write_small, {std::string(65, 'k'), 1}), testing::KilledBySignal(SIGABRT),
              "kind is short");
}

// A stream that accepts only so many bytes, like a full disk. It fails at once or, if the system
// buffers the bytes first, when flushed.
class FullDisk : public std::streambuf {
 public:
  FullDisk(std::size_t room, bool says_so_at_once) : room_(room), at_once_(says_so_at_once) {}

 protected:
  int overflow(int c) override {
    ++taken_;
    return at_once_ && taken_ > room_ ? traits_type::eof() : traits_type::not_eof(c);
  }
  int sync() override { return taken_ > room_ ? -1 : 0; }

 private:
  std::size_t room_;
  bool at_once_;
  std::size_t taken_ = 0;
};

TEST(StateFile, AFullDiskIsNoticedWhereverItHappens) {
  const std::size_t size = state_of(write_small).size();
  for (const bool at_once : {true, false}) {
    const auto write_into = [&](std::size_t room) {
      FullDisk disk(room, at_once);
      std::ostream out(&disk);
      StateWriter writer(out, "memory", kHeader);
      write_small(writer);
      writer.finish();
    };
    for (std::size_t room = 0; room < size; ++room) {
      SCOPED_TRACE(room);
      expect_error(ErrorKind::kSystem, "memory", "cannot write", [&] { write_into(room); });
    }
    EXPECT_NO_THROW(write_into(size));
  }
}

TEST(StateFile, AFullDiskIsNoticedBeforeTheEndOfALongState) {
  FullDisk disk(1000, true);
  std::ostream out(&disk);
  StateWriter writer(out, "memory", kHeader);
  const std::string data(kFrameBytes, 'd');
  expect_error(ErrorKind::kSystem, "memory", "cannot write",
               [&] { writer.write_bytes(data.data(), data.size()); });
}

TEST(StateFile, AnUnfinishedStateReadsAsTruncated) {
  std::ostringstream out(std::ios::binary);
  {
    StateWriter writer(out, "memory", kHeader);
    const std::string data(2 * kFrameBytes, 'd');
    writer.write_bytes(data.data(), data.size());
  }
  expect_corrupt(out.str(), "truncated", [](StateReader& reader) {
    std::string data(2 * kFrameBytes, '\0');
    reader.read_bytes(data.data(), data.size());
  });
}

}  // namespace
}  // namespace mcnb::state_file_test
