#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"
#include "tests/data/data_files.h"
#include "tests/temporary_folder.h"

namespace mcnb {
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
  put_file(folder / "mushroom/agaricus-lepiota.data", "");
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

TEST(Data, WhatAPersonHasToFetchIsSaid) {
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

// Every data set that is here, from its files to a table.
TEST(Data, EveryDataSetIsPlayed) {
  MCNB_NEED_REAL_DATA(data);
  const TemporaryFolder folder;
  for (const char* name : {"amazon", "cifar10", "emnist-letters", "facebook", "fashion-mnist",
                           "mnist", "mnist+notmnist", "movielens", "movielens-small", "mushroom",
                           "notmnist", "shuttle", "yelp"}) {
    SCOPED_TRACE(name);
    std::vector<std::string> arguments{"run",
                                       "--environment",
                                       name,
                                       "--data",
                                       data.string(),
                                       "--policy",
                                       "random",
                                       "--rounds",
                                       "200",
                                       "--seeds",
                                       "1",
                                       "--output",
                                       (folder / name).string()};
    if (std::string(name) == "amazon") {  // a sample of the format: too few users for fifty
      arguments.insert(arguments.end(), {"--set", "users=5"});
    }
    const ProgramOutcome outcome = run_program(arguments, folder);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    expect_parts(outcome.output, {"random", "regret"});
  }
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
  // The same numbers in columns with other names and in another order are another world; a column
  // that is not there is named.
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
  const ProgramOutcome none = run_program(
      {"run", "--environment", "ratings", "--output", (folder / "none").string()}, folder);
  EXPECT_EQ(none.status, 2);
  expect_parts(none.errors, {"option file", "a path"});
}

}  // namespace
}  // namespace mcnb
