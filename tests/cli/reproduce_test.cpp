// `mcnb reproduce`, `report` and `results merge` as a user would start them.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/experiment/run/cell_store.h"
#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::reproduce_test {
namespace {

constexpr const char* kPlan = R"(title = "Small & quick"
environments = ["synthetic:users=8:items=0:arms=4"]
policies = ["linucb", "random"]
rounds = 100
seeds = 3
[tune]
rounds = 50
seeds = 1
[[tune.grid]]
policies = ["linucb"]
alpha = [0.01, 1]
)";

std::string plan_in(const TemporaryFolder& folder) {
  put_file(folder / "mine.toml", kPlan);
  return (folder / "mine.toml").string();
}

TEST(Reproduce, WritesThePageTablesAndPicturesAndKeepsItsRuns) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const std::vector<std::string> command{"reproduce", plan_in(folder), "--tune", "--output",
                                         output};
  const ProgramOutcome first = run_program(command);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_NE(first.output.find("Small & quick"), std::string::npos);
  EXPECT_NE(first.output.find("linucb:alpha="), std::string::npos);
  const std::string page = file_contents(folder / "out" / "report.html");
  EXPECT_NE(page.find("Small &amp; quick"), std::string::npos);
  EXPECT_NE(page.find("mcnb reproduce"), std::string::npos) << "how it was made";
  for (const char* name : {"winners.csv", "options.csv", "curves.csv"}) {
    EXPECT_FALSE(file_contents(folder / "out" / "mine-tuned" / name).empty()) << name;
  }
  const std::string numbers = file_contents(folder / "out" / "results.csv");
  EXPECT_NE(numbers.find("mine-tuned,synthetic,"), std::string::npos) << numbers;
  EXPECT_NE(numbers.find(",linucb:alpha="), std::string::npos) << "as it was run: " << numbers;
  const ProgramOutcome again = run_program(command);
  EXPECT_NE(again.errors.find("8 runs, 8 of them kept"), std::string::npos) << again.errors;
  EXPECT_EQ(run_program({"report", plan_in(folder), "--tune", "--output", output}).status, 0);
  // `mcnb run` takes the same file.
  const ProgramOutcome run =
      run_program({"run", plan_in(folder), "--output", (folder / "run").string()});
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_FALSE(file_contents(folder / "run" / "mine" / "winners.csv").empty());
}

// Without a database, machines take different seeds.
TEST(Reproduce, RunsOfSeveralMachinesAreJoinedByMerging) {
  const TemporaryFolder folder;
  const std::string plan = plan_in(folder);
  for (const char* seed : {"1", "2", "3"}) {
    const ProgramOutcome outcome = run_program({"reproduce", plan, "--first-seed", seed, "--seeds",
                                                "1", "--output", (folder / seed).string()});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
  }
  const ProgramOutcome merged =
      run_program({"results", "merge", (folder / "1/results.sqlite").string(),
                   (folder / "2/results.sqlite").string(), (folder / "3/results.sqlite").string()});
  EXPECT_EQ(merged.status, 0) << merged.errors;
  EXPECT_NE(merged.output.find("1/results.sqlite: 6 runs"), std::string::npos) << merged.output;
  for (const char* beside : {"-wal", "-shm"}) {
    EXPECT_FALSE(std::filesystem::exists((folder / "2/results.sqlite").string() + beside));
  }
  const ProgramOutcome report = run_program(
      {"report", plan, "--first-seed", "1", "--seeds", "3", "--output", (folder / "1").string()});
  EXPECT_EQ(report.status, 0) << report.errors;
  EXPECT_EQ(report.errors.find("missing"), std::string::npos) << report.errors;
  // The page knows where and when the runs were made.
  const std::string page = file_contents(folder / "1" / "report.html");
  EXPECT_TRUE(std::regex_search(page, std::regex(", runs of [^<]* on [^<]*, \\d+ threads, \\w+, "
                                                 "\\d{4}-\\d\\d-\\d\\d")))
      << page;
  // The joined results are those of one machine.
  run_program({"reproduce", plan, "--output", (folder / "whole").string()});
  EXPECT_EQ(file_contents(folder / "whole" / "mine" / "curves.csv"),
            file_contents(folder / "1" / "mine" / "curves.csv"));
}

TEST(Reproduce, AnInterruptionLosesNoFinishedRun) {
  const TemporaryFolder folder;
  const auto arguments = [&](const char* seeds) {
    return std::vector<std::string>{
        "reproduce", (folder / "mine.toml").string(), "--seeds", seeds, "--jobs", "1",
        "--output",  (folder / "out").string()};
  };
  put_file(folder / "mine.toml",
           "environments = [\"synthetic:users=8:items=0\"]\n"
           "policies = [\"random\"]\nrounds = 100\n");
  Program program(arguments("2000"));
  const auto finished = [&] {
    return std::filesystem::exists(folder / "out/results.sqlite")
               ? CellStore(folder / "out/results.sqlite", "any").size()
               : 0;
  };
  while (finished() < 3 && program.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(program.is_running()) << program.wait().errors;
  program.interrupt();
  const ProgramOutcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 130) << outcome.errors;
  EXPECT_NE(outcome.errors.find("the same command goes on"), std::string::npos);
  const ProgramOutcome report = run_program({"report", "--output", (folder / "out").string()});
  EXPECT_NE(report.output.find("runs are missing; mcnb reproduce goes on"), std::string::npos)
      << report.output << report.errors;
  EXPECT_EQ(report.status, 1) << "there is nothing to show";
  const ProgramOutcome resumed = run_program(arguments("3"));
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("3 runs, 3 of them kept"), std::string::npos) << resumed.errors;
}

TEST(Reproduce, AChangeOfThePlanWhileItRunsIsForTheNextTime) {
  const TemporaryFolder folder;
  const std::string plan = plan_in(folder);
  const std::filesystem::path results = folder / "out/results.sqlite";
  Program program({"reproduce", plan, "--rounds", "5000", "--jobs", "1", "--output",
                   (folder / "out").string()});
  while (!std::filesystem::exists(results) && program.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  put_file(plan, "this is no plan");
  const ProgramOutcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("report.html"), std::string::npos) << outcome.output;
}

// Runs on copies of the data, with other paths and file times, can be joined.
TEST(Reproduce, RunsOnCopiesOfTheDataAreJoined) {
  const TemporaryFolder folder;
  put_file(folder / "mine.toml",
           "environments = [\"mushroom\"]\npolicies = [\"linucb\", \"random\"]\nrounds = 50\n"
           "seeds = 4\n");
  for (const char* part : {"1", "2"}) {
    std::string rows;
    for (int i = 0; i < 10; ++i) {
      rows +=
          "p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u\ne,x,s,y,t,a,f,c,b,k,e,c,s,s,w,w,p,w,o,p,"
          "n,n,g\n";
    }
    const std::filesystem::path file = folder / part / "mushroom" / "agaricus-lepiota.data";
    std::filesystem::create_directories(file.parent_path());
    put_file(file, rows);
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() -
                                               std::chrono::hours(part[0] == '1' ? 5 : 9));
    const ProgramOutcome outcome = run_program(
        {"reproduce", (folder / "mine.toml").string(), "--first-seed", part[0] == '1' ? "1" : "3",
         "--seeds", "2", "--data", (folder / part).string(), "--output", (folder / part).string()});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
  }
  run_program({"results", "merge", (folder / "1/results.sqlite").string(),
               (folder / "2/results.sqlite").string()});
  const ProgramOutcome report =
      run_program({"report", (folder / "mine.toml").string(), "--first-seed", "1", "--seeds", "4",
                   "--data", (folder / "2").string(), "--output", (folder / "1").string()});
  EXPECT_EQ(report.status, 0) << report.errors;
  EXPECT_EQ(report.errors.find("missing"), std::string::npos) << report.errors;
  const std::string page = file_contents(folder / "1" / "report.html");
  EXPECT_EQ(page.find(folder.path().string()), std::string::npos) << "it names a folder of ours";
}

TEST(Reproduce, ThePageKeepsWhatWasMadeBefore) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  put_file(folder / "other.toml",
           "title = \"Another one\"\nenvironments = [\"synthetic:users=8\"]\n"
           "policies = [\"random\"]\nrounds = 50\nseeds = 2\n");
  put_file(folder / "times.toml",
           "title = \"Times\"\nfigure = \"breakdown\"\nenvironments = [\"synthetic\"]\n"
           "policies = [\"mcnb:preset=algorithm\"]\nrounds = 5\nseeds = 1\n"
           "[axis]\noption = \"environment.users\"\nvalues = [20]\n"
           "[[published]]\nlabel = \"training\"\nat = [20]\nvalues = [0.067]\n");
  EXPECT_EQ(
      run_program({"reproduce", plan_in(folder), "--tune", "--seeds", "2", "--output", output})
          .status,
      0);
  const ProgramOutcome second = run_program({"reproduce", (folder / "other.toml").string(),
                                             (folder / "times.toml").string(), "--output", output});
  EXPECT_EQ(second.status, 0) << second.errors;
  const auto expect_all = [&] {
    const std::string page = file_contents(folder / "out" / "report.html");
    for (const char* part : {"Small &amp; quick", "Another one", "Times", "published",
                             "clustering ms", "(breakdown.csv, .tex)"}) {
      EXPECT_NE(page.find(part), std::string::npos) << part;
    }
  };
  expect_all();
  const ProgramOutcome report = run_program({"report", "--output", output});
  EXPECT_EQ(report.status, 0) << report.errors;
  EXPECT_EQ(report.errors.find("missing"), std::string::npos) << "as they were run: tuned, 2 seeds";
  expect_all();
}

TEST(Reproduce, EnvironmentsOfOnePlanMayBeRunOneByOne) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  put_file(folder / "two.toml",
           "title = \"Two\"\nenvironments = [\"synthetic:users=8\", \"synthetic:users=9\"]\n"
           "policies = [\"random\"]\nrounds = 50\nseeds = 2\n");
  for (const char* users : {"synthetic:users=8", "synthetic:users=9"}) {
    const ProgramOutcome outcome = run_program(
        {"reproduce", (folder / "two.toml").string(), "--datasets", users, "--output", output});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
  }
  const auto expect_both = [&] {
    const std::string page = file_contents(folder / "out" / "report.html");
    const std::string numbers = file_contents(folder / "out" / "two" / "curves.csv");
    for (const char* users : {"users=8", "users=9"}) {
      EXPECT_NE(page.find(users), std::string::npos) << users;
      EXPECT_NE(numbers.find(users), std::string::npos) << users;
    }
  };
  expect_both();
  EXPECT_EQ(run_program({"report", "--output", output}).status, 0);
  expect_both();
  // A data set that the plan does not list is shown beside the plan's own.
  EXPECT_EQ(run_program({"reproduce", (folder / "two.toml").string(), "--output", output}).status,
            0);
  EXPECT_EQ(run_program({"reproduce", (folder / "two.toml").string(), "--datasets",
                         "synthetic:users=7", "--output", output})
                .status,
            0);
  expect_both();
  EXPECT_NE(file_contents(folder / "out" / "two" / "curves.csv").find("users=7"),
            std::string::npos);
}

// Files and captions of one section of the page come from the last call, whatever way its settings
// are written.
TEST(Reproduce, WhatHasTheSamePlaceOnThePageIsReplaced) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  put_file(folder / "one.toml",
           "title = \"One\"\nenvironments = [\"synthetic\"]\n"
           "policies = [\"random\"]\nrounds = 60\nseeds = 2\n");
  const std::string plan = (folder / "one.toml").string();
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"reproduce", plan, "--output", output};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramOutcome outcome = run_program(words);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
  };
  run({"--set", "users=500"});  // the default
  run({"--rounds", "40"});
  run({"--set", "users=20", "--rounds", "30"});
  const std::string page = file_contents(folder / "out" / "report.html");
  EXPECT_EQ(page.find("60 rounds"), std::string::npos);
  EXPECT_NE(page.find("40 rounds"), std::string::npos);
  EXPECT_NE(page.find("30 rounds"), std::string::npos);
  const std::string numbers = file_contents(folder / "out" / "one" / "policies-synthetic.csv");
  EXPECT_NE(numbers.find(",40,"), std::string::npos) << numbers;
  const ProgramOutcome twice = run_program({"reproduce", plan, plan, "--output", output});
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.errors.find("plans of different names"), std::string::npos) << twice.errors;
}

TEST(Reproduce, APlanWithoutDataIsNamedAndTheOthersAreMade) {
  const TemporaryFolder folder;
  put_file(folder / "far.toml",
           "title = \"Far\"\nenvironments = [\"mnist\"]\n"
           "policies = [\"random\"]\nrounds = 50\nseeds = 2\n");
  std::filesystem::create_directories(folder / "empty");
  const ProgramOutcome outcome =
      run_program({"reproduce", (folder / "far.toml").string(), plan_in(folder), "--data",
                   (folder / "empty").string(), "--output", (folder / "out").string()});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = file_contents(folder / "out" / "report.html");
  EXPECT_NE(page.find("the data of no environment is here"), std::string::npos);
  EXPECT_NE(page.find("Small &amp; quick"), std::string::npos);
}

// The plan's file and its data may have been deleted after the run.
TEST(Reproduce, AReportNeedsNeitherThePlansFileNorItsData) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  std::string samples;
  for (int i = 0; i < 60; ++i) {
    samples +=
        std::to_string(i % 3) + "," + std::to_string(i % 7) + "," + std::to_string(i % 2) + "\n";
  }
  put_file(folder / "samples.csv", samples);
  put_file(folder / "own.toml",
           "title = \"Own\"\nenvironments = [\"samples:file=" + (folder / "samples.csv").string() +
               "\"]\npolicies = [\"linucb\", \"mcnb\"]\nrounds = 30\n"
               "seeds = 2\n");
  const ProgramOutcome made =
      run_program({"reproduce", (folder / "own.toml").string(), "--output", output});
  ASSERT_EQ(made.status, 0) << made.errors;
  EXPECT_NE(made.output.find("mcnb:preset=default-classification"), std::string::npos)
      << "what mcnb was run with: " << made.output;
  const std::string numbers = file_contents(folder / "out" / "own" / "curves.csv");
  std::filesystem::remove(folder / "samples.csv");
  std::filesystem::remove(folder / "own.toml");
  std::filesystem::remove_all(folder / "out" / "own");
  const ProgramOutcome report = run_program({"report", "own", "--output", output});
  EXPECT_EQ(report.status, 0) << report.errors;
  EXPECT_EQ(report.errors.find("missing"), std::string::npos) << report.errors;
  EXPECT_EQ(file_contents(folder / "out" / "own" / "curves.csv"), numbers);
  // A report works with other flags too.
  const ProgramOutcome one =
      run_program({"report", (folder / "own.toml").string(), "--seeds", "1", "--output", output});
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(one.errors.find("missing"), std::string::npos) << one.errors;
}

// Data that changes under the same name gives separate runs, which are never mixed.
TEST(Reproduce, AReportShowsRunsOfTheDataThatIsHere) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  const auto put_samples = [&](int period) {
    std::string samples;
    for (int i = 0; i < 60; ++i) {
      samples += std::to_string(i % 3) + "," + std::to_string(i % period) + "," +
                 std::to_string(i % 2) + "\n";
    }
    put_file(folder / "samples.csv", samples);
  };
  put_file(folder / "own.toml",
           "title = \"Own\"\nenvironments = [\"samples:file=" + (folder / "samples.csv").string() +
               "\"]\npolicies = [\"linucb\"]\nrounds = 30\nseeds = 2\n");
  const std::string plan = (folder / "own.toml").string();
  const auto curves = [&](const std::vector<std::string>& words) {
    const ProgramOutcome outcome = run_program(words);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return file_contents(folder / "out" / "own" / "curves.csv");
  };
  put_samples(7);
  const std::string first = curves({"reproduce", plan, "--output", output});
  put_samples(4);
  const std::string second = curves({"reproduce", plan, "--output", output});
  ASSERT_NE(first, second);
  EXPECT_EQ(curves({"report", "own", "--output", output}), second);
  put_samples(7);
  EXPECT_EQ(curves({"report", "own", "--output", output}), first);
}

TEST(Reproduce, OfAllOnlyPlansWithTheseAreMade) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"reproduce", "all", "--datasets", "synthetic", "--policies", "linucb",
                   "--rounds", "20", "--seeds", "2", "--output", (folder / "out").string()});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("fig-users is left out: it has none of these data sets"),
            std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("table-breakdown is left out: it has none of these policies"),
            std::string::npos)
      << outcome.errors;
  const std::string page = file_contents(folder / "out" / "report.html");
  EXPECT_NE(page.find("LinUCB, one per user, alpha 0.3"), std::string::npos);
  EXPECT_EQ(run_program({"report", "--output", (folder / "out").string()}).status, 0);
}

TEST(Reproduce, SectionsOfOnePlanAreToldApartAndCommandsStayWhole) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  for (const char* users : {"users=500", "users=20"}) {
    EXPECT_EQ(run_program({"reproduce", plan_in(folder), "--set", users, "--jobs", "1",
                           "--datasets", "synthetic", "--output", output})
                  .status,
              0);
  }
  const std::string page = file_contents(folder / "out" / "report.html");
  for (const char* part : {"<h2 id=\"mine\">Small &amp; quick</h2>",
                           "<h2 id=\"mine-users-20\">Small &amp; quick (users=20)</h2>",
                           "href=\"#mine\"", "href=\"#mine-users-20\"", "--jobs 1"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

TEST(Reproduce, BadInputIsRefusedAndNamed) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string part;
  };
  put_file(folder / "bad.toml", "rounds = 10\nround = 5\n");
  const Case cases[] = {
      {{"reproduce", "--output", output}, 2, "NAME"},
      {{"reproduce", "fig-nothing", "--output", output}, 2, "fig-recommendation"},
      {{"reproduce", (folder / "bad.toml").string(), "--output", output}, 2, "line 2: round"},
      {{"reproduce", plan_in(folder), "--results", "", "--output", output}, 2, "expected a value"},
      {{"reproduce", plan_in(folder), "--rounds", "x", "--output", output}, 2, "rounds"},
      {{"reproduce", plan_in(folder), "--set", "protocl=text", "--output", output}, 2, "protocl"},
      {{"run", plan_in(folder), "--rounds", "5", "--output", output}, 2, "--rounds"},
      {{"reproduce", plan_in(folder), "--policies", "nobody", "--output", output}, 2, "nobody"},
      {{"reproduce", plan_in(folder), "--policies", "random,random", "--output", output},
       2,
       "every entry once"},
      {{"reproduce", plan_in(folder), "--datasets", ",", "--output", output}, 2, "at least one"},
      {{"reproduce", "fig-nu-gamma", "--policies", "mcnb:gamma=0.2", "--output", output},
       2,
       "which the plan's axis sets"},
      {{"reproduce", plan_in(folder), "--rounds", "", "--output", output}, 2, "expected a value"},
      {{"reproduce", plan_in(folder), "--policies", "", "--output", output}, 2, "--policies"},
      {{"reproduce", "all", "fig-s", "--output", output}, 2, "all alone"},
      {{"reproduce", "matched-recommendation", "--policies", "random", "--output", output},
       2,
       "expected mcnb among them"},
      {{"reproduce", "fig-recommendation", "--tune", "--first-seed", "1000001", "--rounds", "10",
        "--output", output},
       2,
       "seeds that are not reported"},
      {{"theory", "--output", (folder / "bad.toml").string()}, 1, "cannot write"},
      {{"reproduce", "all", "--datasets", "nothing", "--output", output}, 2, "option datasets"},
      {{"reproduce", "all", "--datasets", ",", "--output", output}, 2, "option datasets"},
      {{"report", "--csv", (folder / "bad.toml").string()}, 1, "bad.toml:1: expected a column"},
      {{"report", "mine", "--csv", "x.csv"}, 2, "--csv"},
      {{"report", "--output", (folder / "nothing").string()}, 1, "there are no results"},
      {{"results", "merge", (folder / "a.sqlite").string(), (folder / "bad.toml").string()},
       1,
       "bad.toml"},
      {{"results", "merge", (folder / "a.sqlite").string(), (folder / "b.sqlite").string()},
       1,
       "no such file"},
  };
  for (const Case& one : cases) {
    const ProgramOutcome outcome = run_program(one.arguments);
    EXPECT_EQ(outcome.status, one.status) << outcome.errors;
    EXPECT_NE(outcome.errors.find(one.part), std::string::npos)
        << one.part << ": " << outcome.errors;
  }
  const ProgramOutcome good = run_program({"reproduce", plan_in(folder), "--output", output});
  EXPECT_EQ(good.status, 0) << "no refused request is remembered: " << good.errors;
  EXPECT_FALSE(std::filesystem::exists(folder / "nothing"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.sqlite"));
}

TEST(Reproduce, AReportOfAPlanThatWasNotRunIsRefused) {
  const TemporaryFolder folder;
  const std::string output = (folder / "out").string();
  EXPECT_EQ(run_program({"reproduce", plan_in(folder), "--output", output}).status, 0);
  const ProgramOutcome unknown = run_program({"report", "mine", "nosuch", "--output", output});
  EXPECT_EQ(unknown.status, 1) << unknown.output;
  EXPECT_NE(unknown.errors.find("no plan nosuch has been run"), std::string::npos);
}

TEST(Reproduce, AResultsFileIsPrintedAsMarkdown) {
  const ProgramOutcome outcome =
      run_program({"report", "--csv", MCNB_SOURCE_DIR "/docs/results.csv"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(outcome.output.starts_with("## Overview\n")) << outcome.output;
  EXPECT_NE(outcome.output.find("\n| mcnb | "), std::string::npos);
}

}  // namespace
}  // namespace mcnb::reproduce_test
