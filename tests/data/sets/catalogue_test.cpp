#include "mcnb/data/sets/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/data/sets/download.h"
#include "tests/data/data_files.h"
#include "tests/numeric/plain_network.h"
#include "tests/temporary_folder.h"

namespace mcnb::catalogue_test {
namespace {

namespace fs = std::filesystem;
using plain::expect_error;

bool is_checksum(const std::string& text) {
  return text.empty() || (text.starts_with("sha256:") && text.size() == 7 + 64) ||
         (text.starts_with("md5:") && text.size() == 4 + 32);
}

TEST(Catalogue, EveryDataSetSaysWhatItIsAndHowItIsRead) {
  std::vector<std::string> names;
  for (const DataSet& set : data_sets()) {
    SCOPED_TRACE(set.name);
    names.push_back(set.name);
    EXPECT_FALSE(set.about.empty());
    EXPECT_TRUE(set.home.starts_with("http")) << set.home;
    EXPECT_FALSE(set.licence.empty());
    EXPECT_FALSE(set.folders.empty());
    EXPECT_FALSE(set.forms.empty());
    for (const DataForm& form : set.forms) {
      EXPECT_TRUE(std::ranges::any_of(
          form, [](const DataFile& file) { return file.need == Need::kAlways; }));
    }
    EXPECT_EQ(set.read_samples != nullptr, set.kind == DataKind::kSamples);
    EXPECT_EQ(set.read_ratings != nullptr, set.kind != DataKind::kSamples);
    EXPECT_EQ(set.by_hand.empty(), !set.downloads.empty());
    for (const Download& one : set.downloads) {
      EXPECT_NE(one.file.empty(), one.members.empty()) << one.url;
      EXPECT_TRUE(is_checksum(one.checksum)) << one.checksum;
      for (const ArchiveMember& member : one.members) {
        EXPECT_TRUE(is_checksum(member.checksum)) << member.checksum;
      }
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(names.size(), 13U);
  EXPECT_EQ(find_data_set("yelp").name, "yelp");
  expect_error(ErrorKind::kUsage, "data set: expected one of amazon, cifar10",
               [] { find_data_set("netflix"); });
}

TEST(Catalogue, FilesAreFoundUnderAnyOfTheirNamesPlainOrCompressed) {
  const TemporaryFolder folder;
  const DataSet& set = find_data_set("movielens");
  const std::vector<fs::path> roots{folder / "none", folder.path()};
  EXPECT_FALSE(locate(set, roots));
  fs::create_directory(folder / "ml-25m");
  put_file(folder / "ml-25m/u.data", "1\t2\t3\t4");
  ASSERT_TRUE(locate(set, roots));
  EXPECT_EQ(locate(set, roots)->paths.front(), folder / "ml-25m/u.data");
  fs::create_directory(folder / "movielens");
  put_file(folder / "movielens/ratings.csv.gz", "bytes");
  EXPECT_EQ(locate(set, roots)->paths.front(), folder / "movielens/ratings.csv.gz");
}

TEST(Catalogue, AnOptionalFileMayBeMissing) {
  const TemporaryFolder folder;
  const DataSet& set = find_data_set("shuttle");
  fs::create_directory(folder / "shuttle");
  put_file(folder / "shuttle/shuttle.trn", "50 21 77 0 28 0 27 48 22 2\n");
  const FoundFiles files = require_files(set, std::vector<fs::path>{folder.path()});
  EXPECT_TRUE(files.paths.at(1).empty());
  ThreadPool threads(1);
  EXPECT_EQ(count(set.read_samples(files, threads)).rows, 1U);
}

TEST(Catalogue, EmptyFilesAndFoldersOfTheRightNameAreNotFound) {
  const TemporaryFolder folder;
  const std::vector<fs::path> roots{folder.path()};
  const DataSet& set = find_data_set("facebook");
  fs::create_directories(folder / "facebook/facebook_combined.txt");
  EXPECT_FALSE(locate(set, roots));
  put_file(folder / "facebook/facebook_combined.txt.gz", "");
  EXPECT_FALSE(locate(set, roots));
  put_file(folder / "facebook/facebook_combined.txt.gz", "0 1\n");
  EXPECT_EQ(locate(set, roots)->paths.front(), folder / "facebook/facebook_combined.txt.gz");
}

std::string cifar_record(char label) { return std::string(1, label) + std::string(3072, 'x'); }

TEST(Catalogue, AnyBatchOfCifar10IsEnough) {
  const TemporaryFolder folder;
  const std::vector<fs::path> roots{folder.path()};
  const DataSet& set = find_data_set("cifar10");
  fs::create_directory(folder / "cifar10");
  put_file(folder / "cifar10/batches.meta.txt.gz", gzipped("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"));
  expect_error(ErrorKind::kInput,
               "batches.meta.txt; at least one of data_batch_1.bin, data_batch_2",
               [&] { require_files(set, roots); });
  put_file(folder / "cifar10/test_batch.bin", cifar_record(3));
  put_file(folder / "cifar10/data_batch_2.bin.gz", gzipped(cifar_record(4) + cifar_record(5)));
  const FoundFiles files = require_files(set, roots);
  EXPECT_EQ(files.paths.at(1), folder / "cifar10/data_batch_2.bin.gz");
  EXPECT_EQ(files.paths.at(5), folder / "cifar10/test_batch.bin");
  EXPECT_EQ(std::ranges::count(files.paths, fs::path()), 4);
  // Only files that were found are read; files added later are ignored.
  put_file(folder / "cifar10/data_batch_1.bin", cifar_record(9));
  ThreadPool threads(1);
  const Samples samples = set.read_samples(files, threads);
  EXPECT_EQ(samples.labels, (std::vector<std::uint16_t>{4, 5, 3}));
  ASSERT_EQ(samples.report.skipped.size(), 1U);
  EXPECT_EQ(samples.report.skipped[0].rows, 4U) << samples.report.text();
  fs::remove(folder / "cifar10/batches.meta.txt.gz");
  EXPECT_FALSE(locate(set, roots));
}

TEST(Catalogue, NotmnistIsReadInTheFirstFormThatIsWhole) {
  const TemporaryFolder folder;
  const std::vector<fs::path> roots{folder.path()};
  const DataSet& set = find_data_set("notmnist");
  ThreadPool threads(1);
  const auto letters = [&] {
    const Samples samples = set.read_samples(require_files(set, roots), threads);
    return std::vector<std::uint16_t>(samples.labels);
  };
  const std::vector<std::uint8_t> pixels(28 * 28, 100);
  const std::string png = png_of(pixels, 28);
  fs::create_directories(folder / "notmnist/notMNIST_small/B");
  put_file(folder / "notmnist/notMNIST_small/B/x.png", png);
  EXPECT_EQ(locate(set, roots)->form, 2U);
  EXPECT_EQ(letters(), (std::vector<std::uint16_t>{1}));
  put_file(folder / "notmnist/train-labels-idx1-ubyte", "only the labels");
  EXPECT_EQ(locate(set, roots)->form, 2U) << "labels alone are no form";
  put_file(folder / "notmnist/notMNIST_small.tar.gz", gzipped(tar_of({{"n/C/x.png", png}})));
  EXPECT_EQ(letters(), (std::vector<std::uint16_t>{2})) << "the archive, labels or no labels";
  fs::remove(folder / "notmnist/train-labels-idx1-ubyte");
  put_file(folder / "notmnist/train-images-idx3-ubyte", "only the pictures");
  EXPECT_EQ(letters(), (std::vector<std::uint16_t>{2})) << "nor are pictures without labels";
  const std::string sizes = big_endian(1) + big_endian(28) + big_endian(28);
  put_file(folder / "notmnist/train-images-idx3-ubyte",
           big_endian(0x803) + sizes + std::string(28 * 28, 'x'));
  put_file(folder / "notmnist/train-labels-idx1-ubyte", big_endian(0x801) + big_endian(1) + '\x04');
  EXPECT_EQ(letters(), (std::vector<std::uint16_t>{4}));
}

TEST(Catalogue, MissingFilesAreNamedWithTheirHomeAndTheirPlace) {
  const TemporaryFolder folder;
  const std::vector<fs::path> roots{folder.path()};
  const auto refused = [&](const char* name, const std::string& words) {
    expect_error(ErrorKind::kInput, words, [&] { require_files(find_data_set(name), roots); });
  };
  refused("mnist", "data set mnist: its files are not here");
  refused("mnist", "train-labels-idx1-ubyte");
  refused("mnist", "from http://yann.lecun.com/exdb/mnist/");
  refused("mnist", (folder / "mnist").string());
  refused("mnist", "mcnb data get mnist");
  refused("yelp", "accept its terms");
}

TEST(Catalogue, ChecksumsAreThoseOfRealFiles) {
  MCNB_NEED_REAL_DATA(data);
  for (const char* name : {"movielens-small", "mushroom", "shuttle"}) {
    for (const ArchiveMember& member : find_data_set(name).downloads.front().members) {
      EXPECT_EQ(file_checksum(data / name / member.name, "sha256:"), member.checksum);
    }
  }
}

// Reads the data sets that are small enough to read quickly, each by its entry in the catalogue.
TEST(Catalogue, RealFilesAreReadAndCounted) {
  MCNB_NEED_REAL_DATA(data);
  const std::vector<fs::path> roots{data};
  ThreadPool threads(2);
  struct Known {
    const char* name;
    std::uint64_t rows;
    std::uint64_t users_or_classes;
  };
  for (const Known& known : {Known{"emnist-letters", 3'536, 26}, Known{"mushroom", 8'124, 2},
                             Known{"shuttle", 58'000, 7}, Known{"notmnist", 18'724, 10}}) {
    SCOPED_TRACE(known.name);
    const DataSet& set = find_data_set(known.name);
    const DataCounts found = count(set.read_samples(require_files(set, roots), threads));
    EXPECT_EQ(found.rows, known.rows);
    EXPECT_EQ(found.classes, known.users_or_classes);
  }
  for (const Known& known :
       {Known{"facebook", 88'234, 4'039}, Known{"movielens-small", 100'836, 610}}) {
    SCOPED_TRACE(known.name);
    const DataSet& set = find_data_set(known.name);
    const DataCounts found = count(set.read_ratings(require_files(set, roots), threads), set.kind);
    EXPECT_EQ(found.rows, known.rows);
    EXPECT_EQ(found.users, known.users_or_classes);
  }
}

}  // namespace
}  // namespace mcnb::catalogue_test
