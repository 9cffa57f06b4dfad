#include "mcnb/data/sets/download.h"

#include <gtest/gtest.h>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/samples_readers.h"
#include "tests/data/data_files.h"
#include "tests/data/local_server.h"
#include "tests/numeric/plain_network.h"
#include "tests/temporary_folder.h"

namespace mcnb::download_test {
namespace {

namespace fs = std::filesystem;
using plain::expect_error;
using Texts = std::vector<std::string>;

const std::string kPage = "<html>sign in first</html>";

bool go_on(const DownloadProgress&) { return true; }

std::string rows(int count, const std::string& label) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += std::to_string(i) + ",0.5," + label + "\n";
  }
  return text;
}

const std::string kTrain = rows(20'000, "a");
const std::string kTest = rows(1000, "a");

// A data set on a server of this machine: training points and, optionally, test points.
class Downloads : public testing::Test {
 protected:
  Downloads() {
    server_.put("train.csv", {kTrain});
    server_.put("test.csv", {kTest});
  }

  std::string sum(const std::string& text) {
    put_file(home_ / "summed", text);
    return file_checksum(home_ / "summed", "sha256:");
  }

  DataSet points() const {
    return {.name = "points",
            .kind = DataKind::kSamples,
            .home = "http://points.example",
            .folders = {"points"},
            .forms = {{{{"train.csv"}}, {{"test.csv", "validation.csv"}, Need::kOptional}}},
            .read_samples = [](const FoundFiles& files, ThreadPool& threads) {
              std::vector<Samples> parts;
              for (const fs::path& path : files.paths) {
                if (!path.empty()) {
                  parts.push_back(read_labelled_csv(Input::file(path), {}, threads));
                }
              }
              return join_samples(std::move(parts));
            }};
  }
  DataSet one_file(const std::string& checksum) const {
    DataSet set = points();
    set.downloads = {{server_.url("train.csv"), "train.csv", {}, checksum}};
    return set;
  }
  DataSet two_files() const {
    DataSet set = one_file("");
    set.downloads.push_back({server_.url("test.csv"), "test.csv", {}, ""});
    return set;
  }
  DataSet archive(const std::string& name, const std::string& train_checksum = "") const {
    DataSet set = points();
    set.downloads = {{server_.url(name), "", {{"train.csv", train_checksum}, {"test.csv"}}, ""}};
    return set;
  }

  bool get(const DataSet& set) { return download(set, folder_, threads_, go_on); }
  void expect_refused(ErrorKind kind, const std::string& words, const DataSet& set) {
    expect_error(kind, words, [&] { get(set); });
  }
  Texts names() const {
    Texts names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      names.push_back(fs::relative(entry.path(), folder_).string());
    }
    std::ranges::sort(names);
    return names;
  }
  void expect_nothing_left() const { EXPECT_TRUE(here_.names().empty()) << here_.names().front(); }
  void put_part(const std::string& bytes) {
    fs::create_directories(folder_ / "incoming");
    put_file(folder_ / "incoming/train.csv.part", bytes);
  }

  LocalServer server_;
  TemporaryFolder home_;
  TemporaryFolder here_;
  fs::path folder_ = here_ / "new/points";
  ThreadPool threads_{1};
};

TEST_F(Downloads, ChecksumsAreThoseOfTheStandards) {
  put_file(home_ / "abc", "abc");
  EXPECT_EQ(file_checksum(home_ / "abc", "md5:"), "md5:900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(file_checksum(home_ / "abc", "sha256:"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_error(ErrorKind::kSystem, "expected sha256 or md5",
               [&] { file_checksum(home_ / "abc", "crc:"); });
}

TEST_F(Downloads, AFileTakesItsPlaceWhenItsChecksumIsRight) {
  EXPECT_TRUE(get(one_file(sum(kTrain))));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
  EXPECT_EQ(names(), Texts{"train.csv"});
}

TEST_F(Downloads, FilesComeFromFoldersTooAndGoOnThere) {
  put_file(home_ / "train.csv", kTrain);
  DataSet set = points();
  set.downloads = {{"file://" + (home_ / "train.csv").string(), "train.csv", {}, sum(kTrain)}};
  for (const std::string& part : {kTrain.substr(0, 1000), kTrain, kTrain + "more"}) {
    put_part(part);
    EXPECT_TRUE(get(set)) << part.size();
    EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
    EXPECT_EQ(names(), Texts{"train.csv"});
    fs::remove(folder_ / "train.csv");
  }
}

TEST_F(Downloads, WhatIsHereAlreadyIsNotFetchedAgain) {
  EXPECT_TRUE(get(two_files()));
  server_.take_requests();
  EXPECT_TRUE(get(two_files()));
  EXPECT_EQ(server_.take_requests(), Texts{});
}

TEST_F(Downloads, OnlyWhatIsMissingOfASetIsFetched) {
  fs::create_directories(folder_);
  put_file(folder_ / "train.csv.gz", gzipped(rows(3, "a")));
  EXPECT_TRUE(get(two_files()));
  EXPECT_EQ(server_.take_requests(), Texts{"test.csv"});
  EXPECT_EQ(names(), (Texts{"test.csv", "train.csv.gz"}));
  fs::rename(folder_ / "test.csv", folder_ / "validation.csv");
  EXPECT_TRUE(get(two_files()));
  EXPECT_EQ(server_.take_requests(), Texts{}) << "it is here under another name";
}

TEST_F(Downloads, OnlyMissingMembersAreTakenFromAnArchive) {
  fs::create_directories(folder_);
  const std::string own = rows(3, "a");
  put_file(folder_ / "train.csv", own);
  server_.put("all.tar", {tar_of({{"train.csv", kTrain}, {"test.csv", kTest}})});
  EXPECT_TRUE(get(archive("all.tar")));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), own);
  EXPECT_EQ(file_contents(folder_ / "test.csv"), kTest);
}

TEST_F(Downloads, AWrongChecksumThrowsTheFileAway) {
  expect_refused(ErrorKind::kInput, "expected sha256:0000",
                 one_file("sha256:" + std::string(64, '0')));
  expect_nothing_left();
}

TEST_F(Downloads, APageInPlaceOfAFileIsThrownAwayWhateverItsStatus) {
  server_.put("train.csv", {kPage});
  expect_refused(ErrorKind::kInput, "train.csv: expected samples, found none", one_file(""));
  expect_nothing_left();
  server_.put("train.csv", {kTrain});
  EXPECT_TRUE(get(one_file("")));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
}

TEST_F(Downloads, AnInterruptedOneGoesOnFromItsPart) {
  put_part(kTrain.substr(0, 1000));
  EXPECT_TRUE(get(one_file(sum(kTrain))));
  EXPECT_EQ(server_.take_requests(), Texts{"train.csv from 1000"});
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
}

TEST_F(Downloads, AnInterruptedOneThatTurnsOutWrongLeavesNothing) {
  put_part("other bytes");
  expect_refused(ErrorKind::kInput, "train.csv: expected sha256", one_file(sum(kTrain)));
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(get(one_file(sum(kTrain))));
}

TEST_F(Downloads, AServerWithoutRangesSendsAllAgain) {
  server_.put("train.csv", {.body = kTrain, .ranges = false});
  put_part(kTrain.substr(0, 1000));
  EXPECT_TRUE(get(one_file(sum(kTrain))));
  EXPECT_EQ(server_.take_requests(), (Texts{"train.csv from 1000", "train.csv"}));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
}

TEST_F(Downloads, APartThatIsTooLongIsFetchedAgain) {
  put_part(kTrain + "and more");
  EXPECT_TRUE(get(one_file(sum(kTrain))));
  EXPECT_EQ(server_.take_requests().size(), 2U);
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
}

TEST_F(Downloads, ABrokenLineLeavesThePartToGoOnFrom) {
  server_.put("train.csv", {.body = kTrain, .cut = 5000});
  expect_refused(ErrorKind::kSystem, "cannot download http://127.0.0.1", one_file(sum(kTrain)));
  EXPECT_EQ(names(), (Texts{"incoming", "incoming/train.csv.part"}));
  server_.put("train.csv", {kTrain});
  server_.take_requests();
  EXPECT_TRUE(get(one_file(sum(kTrain))));
  EXPECT_EQ(server_.take_requests(), Texts{"train.csv from 5000"});
  EXPECT_EQ(names(), Texts{"train.csv"});
}

TEST_F(Downloads, WhatCameBeforeALineBrokeIsNotFetchedAgain) {
  server_.put("test.csv", {.body = kTest, .cut = 10});
  expect_refused(ErrorKind::kSystem, "cannot download", two_files());
  EXPECT_FALSE(fs::exists(folder_ / "train.csv")) << "the set was not read yet";
  server_.put("test.csv", {kTest});
  server_.take_requests();
  EXPECT_TRUE(get(two_files()));
  EXPECT_EQ(server_.take_requests(), Texts{"test.csv from 10"});
  EXPECT_EQ(names(), (Texts{"test.csv", "train.csv"}));
}

TEST_F(Downloads, StoppingLeavesNoFileInItsPlace) {
  EXPECT_FALSE(
      download(one_file(""), folder_, threads_, [](const DownloadProgress&) { return false; }));
  EXPECT_FALSE(fs::exists(folder_ / "train.csv"));
}

TEST_F(Downloads, AMissingSourceIsReportedWithTheWayByHandAndLeavesNothing) {
  DataSet set = one_file("");
  set.downloads[0].url = server_.url("nowhere.csv");
  expect_refused(
      ErrorKind::kSystem,
      "by hand: download train.csv from http://points.example and put it into " + folder_.string(),
      set);
  expect_nothing_left();
}

TEST_F(Downloads, AFolderThatWasThereStaysThere) {
  fs::create_directories(folder_);
  DataSet set = one_file("");
  set.downloads[0].url = server_.url("nowhere.csv");
  expect_refused(ErrorKind::kSystem, "cannot download", set);
  EXPECT_TRUE(names().empty());
}

TEST_F(Downloads, MembersOfAnArchiveAreUnpackedWhereverTheyLie) {
  server_.put(
      "all.tar.gz",
      {gzipped(tar_of({{"deep/er/train.csv", kTrain}, {"other", "no"}, {"test.csv", kTest}}))});
  EXPECT_TRUE(get(archive("all.tar.gz", sum(kTrain))));
  EXPECT_EQ(names(), (Texts{"test.csv", "train.csv"}));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), kTrain);
}

// Compressed as compress(1) does it, without repetitions: codes of nine bits.
TEST_F(Downloads, AMemberThatIsCompressedByItselfIsDecompressed) {
  const std::string text = "1,2,a\n3,4,b\n";
  std::string packed = "\x1f\x9d\x90";
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << held;
    for (held += 9; held >= 8; held -= 8, bits >>= 8) {
      packed += static_cast<char>(bits & 0xff);
    }
  }
  packed += static_cast<char>(bits);
  server_.put("all.tar", {tar_of({{"train.csv.Z", packed}, {"test.csv", text}})});
  EXPECT_TRUE(get(archive("all.tar", sum(text))));
  EXPECT_EQ(file_contents(folder_ / "train.csv"), text);
}

TEST_F(Downloads, AnArchiveWithoutAMemberOrWithAnotherOneIsThrownAway) {
  server_.put("all.tar", {tar_of({{"train.csv", kTrain}})});
  expect_refused(ErrorKind::kInput, "expected test.csv in the archive", archive("all.tar"));
  expect_nothing_left();
  server_.put("all.tar", {tar_of({{"train.csv", kTest}, {"test.csv", kTest}})});
  expect_refused(ErrorKind::kInput,
                 "all.tar: train.csv: expected sha256:", archive("all.tar", sum(kTrain)));
  expect_nothing_left();
}

TEST_F(Downloads, AfterABadArchiveTheNextTryStartsAfresh) {
  for (const std::string& bad : {kPage, gzipped(tar_of({{"train.csv", kTrain}})).substr(0, 700)}) {
    server_.put("all.tar.gz", {bad});
    expect_refused(ErrorKind::kInput, "expected an archive", archive("all.tar.gz"));
    expect_nothing_left();
  }
  server_.put("all.tar.gz", {gzipped(tar_of({{"train.csv", kTrain}, {"test.csv", kTest}}))});
  server_.take_requests();
  EXPECT_TRUE(get(archive("all.tar.gz")));
  EXPECT_EQ(server_.take_requests(), Texts{"all.tar.gz"});
  EXPECT_EQ(names(), (Texts{"test.csv", "train.csv"}));
}

TEST_F(Downloads, ADataSetThatNeedsAPersonSaysWhatToDo) {
  for (const char* words : {"accept its terms", "download yelp_academic_dataset_review.json"}) {
    expect_refused(ErrorKind::kUsage, words, find_data_set("yelp"));
  }
  expect_refused(ErrorKind::kUsage, folder_.string(), find_data_set("amazon"));
  expect_nothing_left();
}

}  // namespace
}  // namespace mcnb::download_test
