#include "mcnb/data/formats/picture.h"
#include "mcnb/data/formats/samples_readers.h"
#include "tests/data/data_files.h"
#include "tests/temporary_folder.h"

namespace mcnb::notmnist_test {
namespace {

constexpr std::uint32_t kSide = 28;
using Pixels = std::vector<std::uint8_t>;

Pixels pixels_of(int shade) {
  Pixels pixels(kSide * kSide);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(shade));
  }
  return pixels;
}

std::string picture(int shade) { return png_of(pixels_of(shade), kSide); }

// Files out of order, with the kinds of unwanted files that real archives contain.
const NamedFiles kFiles = {{"set/J/b.png", picture(3)},   {"set/A/z.png", picture(2)},
                           {"set/A/a.png", picture(1)},   {"set/B/torn.png", "\x89PNG\r\n"},
                           {"set/B/empty.png", ""},       {"set/C/small.png", png_of(Pixels(9), 3)},
                           {"set/A/._a.png", "resource"}, {"set/readme.txt", "hello"},
                           {"set/K/k.png", picture(4)}};

void expect_the_set(const Samples& samples) {
  EXPECT_EQ(samples.dimension, kSide * kSide);
  EXPECT_EQ(samples.class_count(), 10U);
  EXPECT_EQ(samples.class_names[9], "J");
  EXPECT_EQ(samples.labels, (std::vector<std::uint16_t>{0, 0, 9}));
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const Pixels expected = pixels_of(static_cast<int>(k) + 1);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), samples.row(k).begin()));
  }
  EXPECT_EQ(samples.report.rows, 3U);
  ASSERT_EQ(samples.report.skipped.size(), 2U) << samples.report.text();
  EXPECT_EQ(samples.report.skipped[0].kind, "unreadable pictures");
  EXPECT_EQ(samples.report.skipped[0].rows, 3U);
  EXPECT_NE(samples.report.skipped[0].first.find("set/B/empty.png: "), std::string::npos)
      << samples.report.skipped[0].first;
  EXPECT_EQ(samples.report.skipped[1].rows, 3U);
}

TEST(Notmnist, ReadsArchivesAndFoldersAlike) {
  ThreadPool threads(2);
  const TemporaryFolder folder;
  for (const auto& [path, contents] : kFiles) {
    std::filesystem::create_directories((folder / path).parent_path());
    put_file(folder / path, contents);
  }
  expect_the_set(read_notmnist(folder.path(), threads));
  const std::string tar = tar_of(kFiles);
  expect_the_set(read_notmnist_archive(text_input(tar), threads));
  put_file(folder / "small.tar.gz", gzipped(tar));
  expect_the_set(read_notmnist(folder / "small.tar.gz", threads));
}

TEST(Notmnist, ManyPicturesKeepTheirOrderOnAnyNumberOfThreads) {
  NamedFiles files;
  for (int i = 0; i < 1500; ++i) {
    files.push_back(
        {"A/" + std::to_string(1000 + (i * 7) % 1500) + ".png", i % 100 == 0    ? picture(i % 256)
                                                                : files.empty() ? ""
                                                                                : files[0].second});
  }
  const std::string tar = tar_of(files);
  ThreadPool one(1);
  ThreadPool eight(8);
  const Samples expected = read_notmnist_archive(text_input(tar), one);
  EXPECT_EQ(expected.size(), 1500U);
  EXPECT_EQ(read_notmnist_archive(text_input(tar), eight), expected);
}

TEST(Notmnist, WrongArchivesAreRefused) {
  ThreadPool threads(1);
  const auto refused = [&](const std::string& bytes) {
    return refusal([&] { read_notmnist_archive(text_input(bytes, "n.tar"), threads); });
  };
  EXPECT_EQ(refused("no archive at all").find("n.tar: expected a tar archive, but it"), 0U);
  EXPECT_EQ(refused(""),
            "n.tar: expected a tar archive, but it cannot be read: "
            "Unrecognized archive format");
  EXPECT_EQ(refused(tar_of({{"A/x.txt", "x"}})),
            "n.tar: expected folders A to J of PNG pictures, 28 x 28, found none");
  EXPECT_EQ(refused(tar_of({{"A/x.png", "x"}})),
            "n.tar: expected folders A to J of PNG pictures, 28 x 28, found none that can be read");
  const std::string tar = tar_of(kFiles);
  EXPECT_EQ(refused(tar.substr(0, 700)).find("n.tar: expected a tar archive, but it"), 0U);
  const std::string packed = gzipped(tar);
  EXPECT_EQ(refused(packed.substr(0, packed.size() / 2)),
            "n.tar: expected data compressed by gzip, but it ends within the compressed data");
}

TEST(Picture, EveryPixelComesBack) {
  const Pixels pixels = pixels_of(0);
  const std::string file = png_of(pixels, kSide);
  const auto bytes = std::span(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  EXPECT_EQ(decode_png(bytes, kSide, kSide).pixels, pixels);
  EXPECT_EQ(decode_png(bytes, 28, 29).fault, "it has 28 x 28 pixels, not 28 x 29");
  for (std::size_t length = 0; length + 12 < file.size(); length += 5) {
    const Picture torn = decode_png(bytes.first(length), kSide, kSide);
    EXPECT_TRUE(torn.pixels.empty());
    EXPECT_FALSE(torn.fault.empty());
  }
}

}  // namespace
}  // namespace mcnb::notmnist_test
