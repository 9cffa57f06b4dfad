#include "mcnb/data/download.h"

#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "tests/data/data_files.h"
#include "tests/numeric/plain_network.h"
#include "tests/temporary_folder.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;
using plain::expect_error;

const std::string kText(300'000, 'x');

bool go_on(const DownloadProgress&) { return true; }

// A data set at home in a folder of this machine.
class Downloads : public testing::Test {
 protected:
  std::string url(const std::string& name) const { return "file://" + (home_ / name).string(); }

  DataSet one_file(const std::string& name, std::string checksum) const {
    DataSet set = find_data_set("mnist");
    set.downloads = {{url(name), name, {}, std::move(checksum)}};
    return set;
  }

  TemporaryFolder home_;
  TemporaryFolder here_;
};

TEST_F(Downloads, ChecksumsAreThoseOfTheStandards) {
  put_file(here_ / "abc", "abc");
  EXPECT_EQ(file_checksum(here_ / "abc", "md5:"), "md5:900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(file_checksum(here_ / "abc", "sha256:"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_error(ErrorKind::kSystem, "expected sha256 or md5",
               [&] { file_checksum(here_ / "abc", "crc:"); });
}

TEST_F(Downloads, AFileTakesItsPlaceWhenItsChecksumIsRight) {
  put_file(home_ / "a.gz", kText);
  const DataSet set = one_file("a.gz", file_checksum(home_ / "a.gz", "sha256:"));
  EXPECT_TRUE(download(set, here_ / "new/folder", go_on));
  EXPECT_EQ(file_contents(here_ / "new/folder/a.gz"), kText);
  EXPECT_FALSE(fs::exists(here_ / "new/folder/a.gz.part"));
}

TEST_F(Downloads, WhatIsHereAlreadyIsNotFetchedAgain) {
  put_file(home_ / "a.gz", kText);
  const DataSet set = one_file("a.gz", file_checksum(home_ / "a.gz", "sha256:"));
  put_file(here_ / "a.gz", kText);
  fs::remove(home_ / "a.gz");
  EXPECT_TRUE(download(set, here_.path(), go_on));
}

TEST_F(Downloads, AWrongChecksumThrowsTheFileAway) {
  put_file(home_ / "a.gz", kText);
  const DataSet set = one_file("a.gz", "sha256:" + std::string(64, '0'));
  expect_error(ErrorKind::kInput, "expected sha256:0000",
               [&] { download(set, here_.path(), go_on); });
  EXPECT_TRUE(here_.names().empty());
}

TEST_F(Downloads, AnInterruptedOneGoesOnFromItsPart) {
  put_file(home_ / "a.gz", kText);
  const DataSet set = one_file("a.gz", file_checksum(home_ / "a.gz", "sha256:"));
  put_file(here_ / "a.gz.part", kText.substr(0, 1000));
  EXPECT_TRUE(download(set, here_.path(), go_on));
  EXPECT_EQ(file_contents(here_ / "a.gz"), kText);
}

TEST_F(Downloads, StoppingLeavesNoFileInItsPlace) {
  put_file(home_ / "a.gz", kText);
  const DataSet set = one_file("a.gz", "");
  EXPECT_FALSE(download(set, here_.path(), [](const DownloadProgress&) { return false; }));
  EXPECT_FALSE(fs::exists(here_ / "a.gz"));
}

TEST_F(Downloads, AMissingSourceIsReportedWithTheWayByHand) {
  const DataSet set = one_file("a.gz", "");
  expect_error(ErrorKind::kSystem, "by hand: fetch it from http://yann.lecun.com",
               [&] { download(set, here_.path(), go_on); });
}

TEST_F(Downloads, MembersOfAnArchiveAreUnpackedWhereverTheyLie) {
  put_file(home_ / "all.tar.gz",
           gzipped(tar_of({{"deep/er/one.csv", "1"}, {"other", "no"}, {"two.csv", kText}})));
  DataSet set = find_data_set("movielens");
  set.downloads = {{url("all.tar.gz"), "", {"one.csv", "two.csv"}, ""}};
  EXPECT_TRUE(download(set, here_.path(), go_on));
  EXPECT_EQ(here_.names(), (std::vector<std::string>{"one.csv", "two.csv"}));
  EXPECT_EQ(file_contents(here_ / "two.csv"), kText);
  set.downloads[0].members = {"three.csv"};
  expect_error(ErrorKind::kInput, "expected three.csv in the archive",
               [&] { download(set, here_.path(), go_on); });
}

TEST_F(Downloads, WhatIsNoArchiveIsRefused) {
  put_file(home_ / "page.zip", "<html>sign in first</html>");
  DataSet set = find_data_set("movielens");
  set.downloads = {{url("page.zip"), "", {"ratings.csv"}, ""}};
  expect_error(ErrorKind::kInput, "page.zip.part: expected",
               [&] { download(set, here_.path(), go_on); });
  EXPECT_FALSE(fs::exists(here_ / "ratings.csv"));
}

TEST_F(Downloads, ADataSetThatNeedsAPersonSaysSo) {
  expect_error(ErrorKind::kUsage, "accept its terms",
               [&] { download(find_data_set("yelp"), here_.path(), go_on); });
}

}  // namespace
}  // namespace mcnb
