// Snapshots in pieces, of which a data folder keeps each one once.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "tests/serve/store/piece_cases.h"
#include "tests/temporary_folder.h"

namespace mcnb::pieced_snapshots_test {
namespace {

namespace fs = std::filesystem;
using namespace cases;

constexpr std::uint32_t kModel = 3;
constexpr std::size_t kSize = 600'000;  // of the contents

// A data folder that can be closed and opened again.
class Folder {
 public:
  Folder() { reopen(); }

  void reopen() {
    storage_.reset();
    storage_ = open_data_folder(folder_.path(), StorageAccess::kOwn);
    storage_->snapshots().remove_unfinished();
  }
  SnapshotStore& store() { return storage_->snapshots(); }
  Storage& storage() { return *storage_; }
  const fs::path& path() const { return folder_.path(); }

  std::vector<fs::path> files(const std::string& ending) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "snapshots")) {
      if (entry.path().extension() == ending) {
        files.push_back(entry.path());
      }
    }
    std::ranges::sort(files);
    return files;
  }
  std::uint64_t piece_bytes() const {
    std::uint64_t bytes = 0;
    for (const fs::path& file : files(".pieces")) {
      bytes += fs::file_size(file);
    }
    return bytes;
  }
  bool holds(std::string_view text) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() && file_contents(entry.path()).find(text) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Storage> storage_;
};

void flip(const fs::path& path, std::size_t at) {
  std::string bytes = file_contents(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
  put_file(path, bytes);
}

// What is wrong with a snapshot; empty if nothing is.
std::string damage_of(SnapshotStore& store, std::uint64_t position, const std::string& contents) {
  try {
    return read_snapshot(store, kModel, position) == framed(contents) ? "" : "other bytes";
  } catch (const Error& error) {
    return std::string(error.kind() == ErrorKind::kCorrupt ? "" : "no damage: ") + error.what();
  }
}

// A state that changes a little from snapshot to snapshot.
class Changing {
 public:
  Changing() : contents_(random_contents(kSize, 1)) {}

  const std::string& next() {
    ++changes_;
    const std::size_t at = changes_ * 104'729 % (kSize - 100);
    contents_.replace(at, 50, random_contents(50 + changes_ % 3, changes_));
    return contents_;
  }

 private:
  std::string contents_;
  std::size_t changes_ = 0;
};

TEST(PiecedSnapshots, FromTheThirdOnOnlyWhatChangedIsWritten) {
  Folder folder;
  Changing state;
  std::string last = state.next();
  EXPECT_EQ(write_contents(folder.store(), kModel, 1, last), last.size());
  for (std::uint64_t position = 2; position < 30; ++position) {
    if (position % 7 == 0) {
      folder.reopen();
    }
    const std::string before = last;
    last = state.next();
    const std::uint64_t written = write_contents(folder.store(), kModel, position, last);
    if (position == 2) {
      EXPECT_EQ(written, last.size()) << "the two share no file";
    } else {
      EXPECT_LT(written, last.size() / 4);
      EXPECT_GT(written, 0U);
    }
    EXPECT_EQ(read_snapshot(folder.store(), kModel, position), framed(last));
    EXPECT_EQ(read_snapshot(folder.store(), kModel, position - 1), framed(before));
    EXPECT_EQ(folder.store().positions(kModel),
              (std::vector<std::uint64_t>{position, position - 1}));
  }
}

TEST(PiecedSnapshots, TheirFilesTakeAtMostHalfMoreThanTheyNeed) {
  Folder folder;
  Changing state;
  std::size_t most_files = 0;
  for (std::uint64_t position = 1; position < 80; ++position) {
    write_contents(folder.store(), kModel, position, state.next());
    EXPECT_LE(folder.piece_bytes(), 2 * (kSize + kSize / 2 + 1000));
    most_files = std::max(most_files, folder.files(".pieces").size());
  }
  EXPECT_GT(most_files, 4U);
  EXPECT_LT(most_files, 60U) << "sparse files are merged";
}

TEST(PiecedSnapshots, DamageOfAnyFileIsNamedAndReachesOneOfTheTwo) {
  Folder folder;
  Changing state;
  std::vector<std::string> states{""};
  for (std::uint64_t position = 1; position < 9; ++position) {
    states.push_back(state.next());
    write_contents(folder.store(), kModel, position, states.back());
  }
  for (const std::string ending : {".pieces", ".snapshot"}) {
    const std::vector<fs::path> files = folder.files(ending);
    EXPECT_GE(files.size(), 2U);
    for (const fs::path& file : files) {
      const std::string whole = file_contents(file);
      // A byte that one of the snapshots needs: most are.
      std::size_t damaged = 0;
      for (const std::size_t at : {whole.size() / 3, whole.size() / 2, whole.size() - 1}) {
        flip(file, at);
        folder.reopen();
        std::vector<std::string> found;
        for (const std::uint64_t position : {7, 8}) {
          const std::string what = damage_of(folder.store(), position, states[position]);
          if (!what.empty()) {
            found.push_back(what);
          }
        }
        ASSERT_LE(found.size(), 1U) << file;
        if (found.size() == 1) {
          ++damaged;
          EXPECT_EQ(found[0].substr(0, file.string().size()), file.string()) << found[0];
        }
        put_file(file, whole);
      }
      EXPECT_GT(damaged, 0U) << file;
    }
  }
}

TEST(PiecedSnapshots, AMissingFileIsDamage) {
  Folder folder;
  Changing state;
  const std::string contents = state.next();
  write_contents(folder.store(), kModel, 1, contents);
  fs::remove(folder.files(".pieces").front());
  EXPECT_NE(damage_of(folder.store(), 1, contents).find("it is missing"), std::string::npos);
}

// A state that forgets somebody is the only one afterwards, and nothing of the earlier ones is
// left.
TEST(PiecedSnapshots, WhatAStateNoLongerHasIsErased) {
  const std::string secret = "the one who asked to be forgotten";
  for (const std::uint64_t before : {1, 2, 3, 6}) {
    Folder folder;
    Changing state;
    for (std::uint64_t position = 1; position <= before; ++position) {
      std::string contents = state.next();
      contents.replace(200'000 + 5'000 * position, secret.size(), secret);
      write_contents(folder.store(), kModel, position, contents);
    }
    ASSERT_TRUE(folder.holds(secret));
    const std::string without = state.next();
    EXPECT_LT(write_contents(folder.store(), kModel, 10, without, true), kSize / 2);
    EXPECT_FALSE(folder.holds(secret)) << before;
    EXPECT_EQ(folder.store().positions(kModel), std::vector<std::uint64_t>{10});
    EXPECT_EQ(read_snapshot(folder.store(), kModel, 10), framed(without));
    folder.reopen();
    EXPECT_EQ(read_snapshot(folder.store(), kModel, 10), framed(without));
    EXPECT_EQ(write_contents(folder.store(), kModel, 11, without), without.size())
        << "the two share no file again";
  }
}

// Otherwise the only snapshot that is left could be one that nobody can read.
TEST(PiecedSnapshots, BeforeTheOthersGoTheLastOneIsVerified) {
  Folder folder;
  Changing state;
  std::string contents = state.next();
  write_contents(folder.store(), kModel, 1, contents);
  flip(folder.files(".pieces").front(), 1000);
  EXPECT_THROW(write_contents(folder.store(), kModel, 2, state.next(), true), Error);
  EXPECT_EQ(folder.store().positions(kModel), std::vector<std::uint64_t>{1});
  contents = state.next();
  EXPECT_EQ(write_contents(folder.store(), kModel, 3, contents, true), contents.size())
      << "the next one is whole";
  EXPECT_EQ(folder.store().positions(kModel), std::vector<std::uint64_t>{3});
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 3), framed(contents));
}

// Nobody reads the pieces that stay what they were, until a restart needs them.
TEST(PiecedSnapshots, DamageOfOldPiecesIsFoundByLaterSnapshots) {
  Folder folder;
  Changing state;
  std::uint64_t position = 0;
  while (++position < 4) {
    write_contents(folder.store(), kModel, position, state.next());
  }
  const fs::path oldest = folder.files(".pieces").front();
  flip(oldest, 450'000);
  std::string last;
  const auto write_next = [&] {
    last = state.next();
    return write_contents(folder.store(), kModel, position, last);
  };
  std::string what;
  for (; what.empty() && position < 100; ++position) {
    try {
      write_next();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      what = error.what();
    }
  }
  EXPECT_EQ(what.substr(0, oldest.string().size()), oldest.string());
  EXPECT_EQ(folder.store().positions(kModel).size(), 1U) << "the damaged one was set aside";
  const std::uint64_t written = write_next();
  EXPECT_EQ(written, last.size()) << "the next one is whole";
  EXPECT_EQ(read_snapshot(folder.store(), kModel, position), framed(last));
}

TEST(PiecedSnapshots, WhatEndsEarlyLeavesThingsAsTheyWere) {
  Folder folder;
  Changing state;
  std::string last;
  for (std::uint64_t position = 1; position < 5; ++position) {
    last = state.next();
    write_contents(folder.store(), kModel, position, last);
  }
  const std::vector<fs::path> files = folder.files(".pieces");
  CutContents cut(state.next(), folder.store().known_pieces(kModel, false));
  cut.fails_at = cut.pieces.size() - 1;
  EXPECT_THROW(folder.store().write_pieces(kModel, 5, cut.state()), Error);
  EXPECT_EQ(folder.files(".pieces"), files);
  EXPECT_EQ(folder.store().positions(kModel), (std::vector<std::uint64_t>{4, 3}));
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 4), framed(last));
}

TEST(PiecedSnapshots, WhatACrashLeavesIsRemovedAtTheNextStart) {
  Folder folder;
  const std::string contents = random_contents(kSize, 5);
  write_contents(folder.store(), kModel, 1, contents);
  const fs::path snapshots = folder.path() / "snapshots";
  for (const char* name :
       {"00000003-000009.pieces", "00000003-000010.pieces.77.part", "00000004-000001.pieces",
        "00000003-00000000000000000002.snapshot.7.part"}) {
    put_file(snapshots / name, "left");
  }
  folder.reopen();
  EXPECT_EQ(folder.files(".pieces").size(), 1U);
  EXPECT_TRUE(folder.files(".part").empty());
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 1), framed(contents));
}

TEST(PiecedSnapshots, ASnapshotWhoseBaseIsGoneIsRefused) {
  Folder folder;
  Changing state;
  for (std::uint64_t position = 1; position < 4; ++position) {
    write_contents(folder.store(), kModel, position, state.next());
  }
  CutContents late(state.next(), folder.store().known_pieces(kModel, false));
  write_contents(folder.store(), kModel, 4, state.next());
  EXPECT_THROW(folder.store().write_pieces(kModel, 5, late.state()), Error);
  EXPECT_EQ(folder.store().positions(kModel), (std::vector<std::uint64_t>{4, 3}));
}

TEST(PiecedSnapshots, TheSamePositionAgainChangesNothingUnlessItIsDamaged) {
  Folder folder;
  Changing state;
  std::string last;
  for (std::uint64_t position = 1; position < 4; ++position) {
    last = state.next();
    write_contents(folder.store(), kModel, position, last);
  }
  const std::vector<fs::path> files = folder.files(".pieces");
  write_contents(folder.store(), kModel, 3, last);
  EXPECT_EQ(folder.files(".pieces"), files);
  flip(folder.path() / "snapshots" / "00000003-00000000000000000003.snapshot", 100);
  folder.reopen();
  write_contents(folder.store(), kModel, 3, last);
  EXPECT_EQ(folder.files(".damaged").size(), 1U);
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 3), framed(last));
  folder.reopen();
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 3), framed(last));
}

TEST(PiecedSnapshots, ABackupHasTheirPieces) {
  Folder folder;
  Changing state;
  std::string last;
  for (std::uint64_t position = 1; position < 5; ++position) {
    last = state.next();
    write_contents(folder.store(), kModel, position, last);
  }
  ASSERT_TRUE(folder.storage().back_up("copy"));
  const std::unique_ptr<Storage> copy =
      open_data_folder(folder.path() / "backups" / "copy", StorageAccess::kLook);
  EXPECT_EQ(read_snapshot(copy->snapshots(), kModel, 4), framed(last));
}

TEST(PiecedSnapshots, ASmallStateCanBecomeLargeAndSmallAgain) {
  Folder folder;
  Changing state;
  folder.store().write(kModel, 1, std::string("small"));
  const std::string first = state.next();
  write_contents(folder.store(), kModel, 2, first);
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 1), "small");
  const std::string second = state.next();
  write_contents(folder.store(), kModel, 3, second);
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 2), framed(first));
  folder.store().write(kModel, 4, std::string("small again"));
  folder.store().write(kModel, 5, std::string("smaller"));
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 5), "smaller");
  write_contents(folder.store(), kModel, 6, second, true);
  EXPECT_EQ(read_snapshot(folder.store(), kModel, 6), framed(second));
  EXPECT_EQ(folder.piece_bytes(), second.size());
}

}  // namespace
}  // namespace mcnb::pieced_snapshots_test
