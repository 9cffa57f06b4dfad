#include "mcnb/data/formats/input.h"

#include "tests/data/data_files.h"
#include "tests/temporary_folder.h"

namespace mcnb::input_test {
namespace {

std::string all_of(const Input& input, std::size_t step = 1000) {
  const auto stream = input.open();
  std::string text;
  for (std::size_t got = step; got == step;) {
    const std::size_t old = text.size();
    text.resize(old + step);
    got = stream->read(text.data() + old, step);
    text.resize(old + got);
  }
  return text;
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 200000; ++i) {
    text += std::to_string(i * 7919) + "\n";
  }
  return text;
}

TEST(Input, IsTheSameFromMemoryFilesAndGzip) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  put_file(folder / "plain.gz", text);
  put_file(folder / "compressed.txt", gzipped(text));
  EXPECT_EQ(all_of(text_input(text)), text);
  EXPECT_EQ(all_of(Input::file(folder / "plain.gz")), text) << "by content, not by name";
  EXPECT_EQ(all_of(Input::file(folder / "compressed.txt")), text);
  for (const std::size_t step : {1U, 7U, 4096U, 10000000U}) {
    EXPECT_EQ(all_of(text_input(gzipped("short text")), step), "short text");
  }
}

TEST(Input, ProgressRunsFromNothingToOne) {
  const std::string text = long_text();
  const std::string packed = gzipped(text);
  for (const std::string& bytes : {text, packed}) {
    const auto stream = text_input(bytes).open();
    std::string buffer(text.size() + 1, '\0');
    EXPECT_LT(stream->progress(), 1.0);
    EXPECT_EQ(stream->read(buffer.data(), buffer.size()), text.size());
    EXPECT_EQ(stream->progress(), 1.0);
  }
}

TEST(Input, GzipMembersFollowEachOther) {
  const std::string two = gzipped("one ") + gzipped("") + gzipped("two");
  EXPECT_EQ(all_of(text_input(two)), "one two");
  EXPECT_EQ(all_of(text_input(two + std::string(700, '\0'))), "one two") << "zeros of a tape";
  EXPECT_NE(refusal([&] { all_of(text_input(two + "rest")); }).find("incorrect header"),
            std::string::npos);
}

TEST(Input, EveryCutOfAGzipFileIsRefused) {
  const std::string packed = gzipped("a text of some length, a text of some length");
  for (std::size_t length = 2; length < packed.size(); ++length) {
    EXPECT_EQ(refusal([&] { all_of(text_input(packed.substr(0, length), "x.gz")); }),
              "x.gz: expected data compressed by gzip, but it ends within the compressed data");
  }
}

TEST(Input, DamagedGzipIsRefused) {
  std::string packed = gzipped(long_text());
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
  EXPECT_EQ(refusal([&] { all_of(text_input(packed, "x.gz")); }),
            "x.gz: expected data compressed by gzip, but incorrect data check");
}

TEST(Input, OtherArchivesAreNamed) {
  EXPECT_EQ(refusal([] { text_input("PK\x03\x04 and so on", "ml-25m.zip").open(); }),
            "ml-25m.zip: expected plain data or gzip, found a zip archive: unpack it first");
  EXPECT_NE(refusal([] { text_input("BZh91AY").open(); }).find("bzip2"), std::string::npos);
}

TEST(Input, FilesThatCannotBeReadAreTheSystemsFault) {
  const TemporaryFolder folder;
  for (const std::filesystem::path& path : {folder / "missing", folder.path()}) {
    try {
      all_of(Input::file(path));
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSystem);
      EXPECT_EQ(std::string(error.what()).find(path.string() + ": cannot "), 0U) << error.what();
    }
  }
}

}  // namespace
}  // namespace mcnb::input_test
