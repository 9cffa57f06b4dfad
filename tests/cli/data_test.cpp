#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "tests/cli/program.h"
#include "tests/data/data_files.h"
#include "tests/sanitizers.h"
#include "tests/temporary_folder.h"

namespace mcnb::data_test {
namespace {

ProgramOutcome run_program(std::vector<std::string> arguments, const TemporaryFolder& cache) {
  return mcnb::run_program(std::move(arguments),
                           {"XDG_CACHE_HOME=" + cache.path().string(), "MCNB_DATA"});
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
  }
}

TEST(Data, TheListSaysWhatIsHereAndWhereTheRestComesFrom) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "mushroom");
  put_file(folder / "mushroom/agaricus-lepiota.data", "e");
  const ProgramOutcome outcome =
      run_program({"data", "list", "--data", folder.path().string()}, folder);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  expect_parts(outcome.output, {"movielens", "yelp", "emnist-letters", "https://grouplens.org",
                                (folder / "mushroom").string(), "not here", "CC BY 4.0"});
}

TEST(Data, AMissingDataSetIsAFailureThatSaysWhatToDo) {
  const TemporaryFolder folder;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"data", "check", "yelp", "--data", folder.path().string()},
        std::vector<std::string>{"run", "--environment", "yelp", "--data", folder.path().string(),
                                 "--output", (folder / "out").string()}}) {
    const ProgramOutcome outcome = run_program(arguments, folder);
    EXPECT_EQ(outcome.status, 1) << outcome.errors;
    expect_parts(outcome.errors, {"yelp_academic_dataset_review.json", "https://www.yelp.com",
                                  (folder / "yelp").string()});
  }
  const ProgramOutcome unknown = run_program({"data", "check", "netflix"}, folder);
  EXPECT_EQ(unknown.status, 2);
  expect_parts(unknown.errors, {"netflix", "expected one of amazon"});
}

TEST(Data, SaysWhichFilesToFetchByHand) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"data", "get", "yelp", "--data", folder.path().string()}, folder);
  EXPECT_EQ(outcome.status, 2);
  expect_parts(outcome.errors, {"accept its terms", "https://www.yelp.com"});
}

TEST(Data, ACheckComparesWithThePublishedNumbers) {
  MCNB_NEED_REAL_DATA(data);
  const TemporaryFolder folder;
  const ProgramOutcome whole =
      run_program({"data", "check", "shuttle", "--data", data.string()}, folder);
  EXPECT_EQ(whole.status, 0) << whole.errors;
  expect_parts(whole.output, {"58000", "as published"});
  const ProgramOutcome part =
      run_program({"data", "check", "emnist-letters", "--data", data.string()}, folder);
  expect_parts(part.output, {"3536", "145600", "a part: 2.4 %"});
}

// The description that a data set's environment must give. Random play has a regret of (1 - 1 /
// arms) per round over 400 rounds, within five standard deviations.
struct Played {
  std::string name;
  std::vector<std::string> description;
  double arms = 10;
  std::vector<std::string> settings = {};
};

void expect_played(const Played& set, const std::string& data, const TemporaryFolder& folder) {
  SCOPED_TRACE(set.name);
  constexpr double kRounds = 400;
  std::vector<std::string> arguments{"run",
                                     "--environment",
                                     set.name,
                                     "--data",
                                     data,
                                     "--policy",
                                     "random",
                                     "--rounds",
                                     "400",
                                     "--seeds",
                                     "1",
                                     "--output",
                                     (folder / set.name).string()};
  for (const std::string& setting : set.settings) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  const ProgramOutcome outcome = run_program(arguments, folder);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  expect_parts(outcome.errors, set.description);
  const std::string json = file_contents(folder / set.name / "results.json");
  expect_parts(json, {"\"environment_description\": \"" + set.description.front()});
  const std::size_t at = json.find("\"regret\": ", json.find("\"summary\""));
  ASSERT_NE(at, std::string::npos);
  const double regret = std::stod(json.substr(at + 10));
  const double share = 1.0 - 1.0 / set.arms;
  EXPECT_NEAR(regret, share * kRounds, 5.0 * std::sqrt(kRounds * share * (1.0 - share)));
}

// Plays every data set that is installed, from its files to a table. The counts are those of the
// public files, or of the parts that are installed.
TEST(Data, EveryDataSetIsPlayed) {
  MCNB_NEED_REAL_DATA(data);
  const TemporaryFolder folder;
  for (const Played& set : std::vector<Played>{
           {"amazon", {"", "k-means made", "50 were asked for"}},
           {"cifar10", {"10000 samples of 3072 numbers in 10 classes"}},
           {"emnist-letters", {"3536 samples of 784 numbers in 26 classes"}, 26},
           {"facebook", {"", "50 users"}},
           {"fashion-mnist", {"70000 samples of 784 numbers in 10 classes"}},
           {"mnist", {"70000 samples of 784 numbers in 10 classes"}},
           {"mnist+notmnist", {"70000 samples of 784", "187"}},
           {"movielens", {"", "50 users"}},
           {"movielens-small", {"", "50 users"}},
           {"movielens-small", {"", "50 users"}, 10, {"svd=held-out", "protocol=notebook"}},
           {"mushroom", {"8124 samples of 126 numbers in 2 classes"}, 2},
           {"notmnist", {"187"}},
           {"shuttle", {"58000 samples of 9 numbers in 7 classes"}, 7},
           {"yelp", {"", "50 users"}}}) {
    const std::set<std::string> large{"cifar10",  "fashion-mnist", "mnist", "mnist+notmnist",
                                      "notmnist", "movielens",     "yelp"};
    if (kSanitized && large.contains(set.name)) {
      continue;  // the tests of the readers run under the sanitizers too
    }
    expect_played(set, data.string(), folder);
  }
}

// The real file is not available, so the test makes rows of the same shape.
TEST(Data, TheTelescopeIsPlayed) {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 60; ++i) {
    rows += fmt::format("{}.5,16.0021,2.6449,0.3918,0.1982,{},22.011,-8.2027,40.092,81.8828,{}\n",
                        20 + i, i - 30, i % 3 == 0 ? 'h' : 'g');
  }
  put_file(folder / "magic-telescope" / "magic04.data", rows);
  expect_played({"magic-telescope", {"60 samples of 10 numbers in 2 classes"}, 2},
                folder.path().string(), folder);
}

TEST(Data, PreparedRatingsAreKeptAndAChangedSourceIsNoticed) {
  const TemporaryFolder folder;
  const auto write = [&](int shift) {
    std::string text = "userId,movieId,rating,timestamp\n";
    for (int i = 0; i < 60; ++i) {
      for (int j = 0; j < 30; ++j) {
        text += fmt::format("{},{},{}.0,1\n", i + 1, j + 1, 1 + (i * j + i + shift) % 5);
      }
    }
    put_file(folder / "movielens" / "ratings.csv", text);
  };
  write(0);
  const std::vector<std::string> arguments{
      "data", "prepare", "movielens", "--data", folder.path().string(), "--set", "users=5"};
  const ProgramOutcome first = run_program(arguments, folder);
  EXPECT_EQ(first.status, 0) << first.errors;
  expect_parts(first.output, {"left out: 1 users", "the second time", "kept in", ".ratings"});
  const auto kept = [&] {
    std::string bytes;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder.path() / "mcnb")) {
      bytes += entry.path().extension() == ".ratings" ? file_contents(entry.path()) : "";
    }
    return bytes;
  };
  const std::string before = kept();
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(run_program(arguments, folder).status, 0);
  EXPECT_EQ(kept(), before);
  write(1);
  EXPECT_EQ(run_program(arguments, folder).status, 0);
  EXPECT_NE(kept(), before);

  put_file(folder / "shuttle" / "shuttle.trn", "1 2 3 4 5 6 7 8 9 1\n2 2 3 4 5 6 7 8 9 2\n");
  const ProgramOutcome samples =
      run_program({"data", "prepare", "shuttle", "--data", folder.path().string()}, folder);
  EXPECT_EQ(samples.status, 0) << samples.errors;
  expect_parts(samples.output, {"nothing is kept"});
}

// Finished runs are not reused after the data has changed, even in a file inside a folder.
TEST(Data, RunsOnChangedDataAreNotKept) {
  MCNB_NEED_REAL_DATA(data);
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "shuttle");
  std::filesystem::copy(data / "shuttle" / "shuttle.trn", folder / "shuttle" / "shuttle.trn");
  const auto play = [&] {
    return run_program(
        {"run", "--environment", "shuttle", "--data", folder.path().string(), "--policy", "random",
         "--rounds", "50", "--seeds", "1", "--output", (folder / "out").string()},
        folder);
  };
  EXPECT_EQ(play().status, 0);
  expect_parts(play().errors, {"1 of 1 runs kept"});
  std::filesystem::copy(data / "shuttle" / "shuttle.tst", folder / "shuttle" / "shuttle.tst");
  const ProgramOutcome changed = play();
  EXPECT_EQ(changed.status, 0);
  EXPECT_EQ(changed.errors.find("kept"), std::string::npos) << changed.errors;
}

TEST(Data, YourOwnFilesArePlayed) {
  const TemporaryFolder folder;
  std::string ratings = "user,item,rating\n";
  for (int i = 0; i < 60; ++i) {
    for (int j = 0; j < 30; ++j) {
      if ((i * 7 + j * 3) % 4 != 0) {
        ratings += std::to_string(i) + "," + std::to_string(j) + "," +
                   std::to_string(1 + (i * j + i) % 5) + "\n";
      }
    }
  }
  put_file(folder / "mine.csv", ratings);
  std::string samples;
  for (int i = 0; i < 40; ++i) {
    samples += std::to_string(i % 7) + "," + std::to_string(i % 3 + 1) + "," +
               std::string(1, static_cast<char>('a' + i % 3)) + "\n";
  }
  put_file(folder / "samples.csv", samples);
  for (const std::string name : {"ratings", "samples"}) {
    std::vector<std::string> arguments{
        "run",
        "--environment",
        name,
        "--policy",
        "linucb,random",
        "--rounds",
        "100",
        "--seeds",
        "1",
        "--output",
        (folder / name).string(),
        "--set",
        "file=" + (folder / (name == "ratings" ? "mine.csv" : "samples.csv")).string()};
    if (name == "ratings") {
      arguments.insert(arguments.end(), {"--set", "users=5"});
    }
    const ProgramOutcome outcome = run_program(arguments, folder);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    expect_parts(outcome.output, {"linucb", "random"});
  }
  const ProgramOutcome none = run_program(
      {"run", "--environment", "ratings", "--output", (folder / "none").string()}, folder);
  EXPECT_EQ(none.status, 2);
  expect_parts(none.errors, {"option file", "a path"});
}

// Columns may have other names and another order; a missing column is named.
TEST(Data, ColumnsOfYourOwnRatingsHaveNames) {
  const TemporaryFolder folder;
  put_file(
      folder / "odd.csv", "what;stars;who\n" + [&] {
        std::string rows;
        for (int i = 0; i < 60; ++i) {
          for (int j = 0; j < 30; ++j) {
            rows += fmt::format("{};{};{}\n", j, (i + j) % 3 == 0 ? 1 : 0, i);
          }
        }
        return rows;
      }());
  const auto play_odd = [&](const std::string& user_column) {
    return run_program({"run",
                        "--environment",
                        "ratings",
                        "--policy",
                        "random",
                        "--rounds",
                        "20",
                        "--seeds",
                        "1",
                        "--output",
                        (folder / "odd").string(),
                        "--set",
                        "file=" + (folder / "odd.csv").string(),
                        "--set",
                        "separator=semicolon",
                        "--set",
                        "user_column=" + user_column,
                        "--set",
                        "item_column=what",
                        "--set",
                        "rating_column=stars",
                        "--set",
                        "liked_above=0",
                        "--set",
                        "users=5"},
                       folder);
  };
  const ProgramOutcome odd = play_odd("who");
  EXPECT_EQ(odd.status, 0) << odd.errors;
  const ProgramOutcome missing = play_odd("whom");
  EXPECT_EQ(missing.status, 1);
  expect_parts(missing.errors, {"odd.csv", "whom"});
}

}  // namespace
}  // namespace mcnb::data_test
