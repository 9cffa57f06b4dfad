// `mcnb run` as a user would start it.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"
#include "mcnb/storage/sqlite.h"
#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::run_test {
namespace {

constexpr int kInterrupted = 130;

std::vector<std::string> small_run(const std::filesystem::path& output,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"run",      "--policy",  "linucb,random,oracle",
                                     "--rounds", "150",       "--seeds",
                                     "2",        "--threads", "1",
                                     "--set",    "users=10",  "--set",
                                     "items=50", "--output",  output.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

std::size_t cell_count(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "results.sqlite";
  if (!std::filesystem::exists(path)) {
    return 0;
  }
  try {
    Database database(path, Database::Access::kReadWrite);
    return static_cast<std::size_t>(database.number("SELECT count(*) FROM cells"));
  } catch (const Error&) {
    return 0;  // the file has just been made
  }
}

TEST(Run, WritesTableNumbersAndPicture) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome = run_program(small_run(folder.path()));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  expect_parts(outcome.output, {"policy", "regret", "linucb", "random", "oracle", "table.txt",
                                "summary.csv", "regret.png"});
  EXPECT_EQ(outcome.output.find(file_contents(folder / "table.txt")), 0U);
  for (const char* name :
       {"summary.csv", "curves.csv", "results.json", "regret.png", "regret.svg"}) {
    EXPECT_FALSE(file_contents(folder / name).empty()) << name;
  }
  EXPECT_EQ(cell_count(folder.path()), 6U);
}

TEST(Run, KeepsFinishedRunsUnlessAskedForFreshOnes) {
  const TemporaryFolder folder;
  run_program(small_run(folder.path()));
  const std::string curves = file_contents(folder / "curves.csv");
  const std::string results = file_contents(folder / "results.json");

  const ProgramOutcome again = run_program(small_run(folder.path()));
  EXPECT_EQ(again.status, 0);
  expect_parts(again.errors, {"6 of 6 runs kept", "--fresh"});
  EXPECT_EQ(file_contents(folder / "results.json"), results);

  const ProgramOutcome fresh = run_program(small_run(folder.path(), {"--fresh"}));
  EXPECT_EQ(fresh.errors.find("kept"), std::string::npos);
  EXPECT_EQ(file_contents(folder / "curves.csv"), curves);
}

TEST(Run, AnInterruptionLosesNoFinishedRun) {
  for (const int number : {SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    const auto arguments = [&](const char* seeds) {
      return std::vector<std::string>{
          "run",     "--policy", "oracle", "--rounds", "100",      "--threads",           "1",
          "--seeds", seeds,      "--set",  "items=0",  "--output", folder.path().string()};
    };
    Program program(arguments("10000"));
    while (cell_count(folder.path()) < 2 && program.is_running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(program.is_running()) << program.wait().errors;
    program.signal(number);
    const ProgramOutcome outcome = program.wait();
    EXPECT_EQ(outcome.status, kInterrupted) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    expect_parts(outcome.errors, {"interrupted", "of 10000 runs", "the same command"});
    EXPECT_GE(cell_count(folder.path()), 2U);

    const ProgramOutcome resumed = run_program(arguments("2"));
    EXPECT_EQ(resumed.status, 0);
    expect_parts(resumed.errors, {"2 of 2 runs kept"});
  }
}

// M-CNB and a baseline, small enough to run many times.
std::vector<std::string> mcnb_run(const std::filesystem::path& output, const std::string& seeds,
                                  const std::string& threads) {
  return {"run",      "--policy", "mcnb,linucb", "--rounds", "60",
          "--seeds",  seeds,      "--threads",   threads,    "--set",
          "users=20", "--set",    "items=50",    "--output", output.string()};
}

std::string curves_of(const std::filesystem::path& folder, const std::string& threads = "0",
                      const std::vector<std::string>& variables = {}) {
  const ProgramOutcome outcome = run_program(mcnb_run(folder, "2", threads), variables);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  expect_parts(outcome.output, {"mcnb", "linucb"});
  const std::string curves = file_contents(folder / "curves.csv");
  EXPECT_NE(curves.find("mcnb"), std::string::npos) << curves;
  return curves;
}

// The bar and the text behind it fit in one line of a terminal, however narrow.
TEST(Run, ProgressFitsTheTerminal) {
  for (const std::size_t columns : {30U, 64U, 120U}) {
    const TemporaryFolder folder;
    std::string command = "stty cols " + std::to_string(columns) + " && exec " MCNB_BINARY;
    for (const std::string& argument : small_run(folder.path())) {
      command += " '" + argument + "'";
    }
    const ProgramOutcome outcome =
        Program({"--quiet", "--return", "--command", command, folder / "shown"}, {},
                "/usr/bin/script")
            .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    const std::string& shown = outcome.output;
    std::size_t lines = 0;
    for (std::size_t begin = shown.find('\r'); begin != std::string::npos;) {
      const std::size_t end = shown.find("\x1b[K", ++begin);
      const std::size_t next = shown.find('\r', begin);
      if (end < next) {  // a line of progress
        ++lines;
        const auto width = static_cast<std::size_t>(
            std::count_if(shown.begin() + static_cast<std::ptrdiff_t>(begin),
                          shown.begin() + static_cast<std::ptrdiff_t>(end),
                          [](char c) { return (c & 0xC0) != 0x80; }));
        EXPECT_LT(width, columns) << shown;
        EXPECT_GT(width, columns < 64 ? columns - 2 : 40) << shown;
      }
      begin = next;
    }
    EXPECT_GT(lines, 0U) << shown;
  }
}

TEST(Run, AResumedExperimentWithMcnbEqualsAFreshOne) {
  const TemporaryFolder folder;
  const std::string fresh = curves_of(folder / "fresh");
  run_program(mcnb_run(folder / "resumed", "1", "0"));
  const ProgramOutcome resumed = run_program(mcnb_run(folder / "resumed", "2", "0"));
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  expect_parts(resumed.errors, {"2 of 4 runs kept"});
  EXPECT_EQ(file_contents(folder / "resumed" / "curves.csv"), fresh);
}

TEST(Run, TheNumberOfThreadsDoesNotChangeTheCurvesOfMcnb) {
  const TemporaryFolder folder;
  const std::string one = curves_of(folder / "one", "1");
  EXPECT_EQ(curves_of(folder / "two", "2"), one);
}

TEST(Run, AvxTargetsGiveTheSameCurves) {
  const std::vector<std::string> targets = kernels::simd_targets();
  for (const char* target : {"avx2", "avx512"}) {
    if (std::ranges::count(targets, target) == 0) {
      GTEST_SKIP() << "this machine has no " << target;
    }
  }
  const TemporaryFolder folder;
  const std::string narrow = curves_of(folder / "avx2", "0", {"MCNB_SIMD=avx2"});
  EXPECT_EQ(curves_of(folder / "avx512", "0", {"MCNB_SIMD=avx512"}), narrow);
}

TEST(Run, APolicyThatDivergesIsNamedWithItsSeedAndWhatToChange) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"run", "--policy", "mcnb:training=replay:optimiser=sgd:learning_rate=900",
                   "--rounds", "300", "--seeds", "1", "--first-seed", "7", "--threads", "1",
                   "--set", "users=20", "--set", "items=50", "--output", folder.path().string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "");
  expect_parts(outcome.errors, {"mcnb:training=replay:optimiser=sgd:learning_rate=900, seed 7: ",
                                "left the finite numbers"});
  // The message names the option once in the label and once more after it.
  const std::size_t label = outcome.errors.find("learning_rate");
  ASSERT_NE(label, std::string::npos);
  EXPECT_NE(outcome.errors.find("learning_rate", label + 1), std::string::npos) << outcome.errors;
}

TEST(Run, RefusesBadInputWithNameRangeAndValue) {
  const TemporaryFolder folder;
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {{"--rounds", "0"}, {"rounds", "[1, ", "\"0\""}},
      {{"--seeds", "0"}, {"seeds", "[1, ", "\"0\""}},
      {{"--seeds", "two"}, {"seeds", "whole number", "\"two\""}},
      {{"--threads", "5000"}, {"threads", "1024", "\"5000\""}},
      {{"--first-seed", "-1"}, {"first_seed", "[0, ", "\"-1\""}},
      {{"--policy", "nobody"}, {"nobody", "linucb"}},
      {{"--policy", "linucb:alpha=-1"}, {"alpha", "[0, ", "\"-1\""}},
      {{"--policy", "random,random"}, {"policy", "once", "random"}},
      {{"--environment", "nowhere"}, {"environment", "synthetic", "\"nowhere\""}},
      {{"--set", "usres=3"}, {"usres", "users"}},
      {{"--set", "users"}, {"set", "name=value", "\"users\""}},
      {{"--set", "gap=2"}, {"gap", "[0, 1)", "\"2\""}},
      {{"--set", "clusters=4", "--set", "gap=0.9"}, {"gap", "clusters", "\"0.9\""}},
      {{"--set", "arms=10001"}, {"arms", "10000]", "\"10001\""}},
      {{"--unknown"}, {"--unknown"}},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments{"run", "--output", folder.path().string()};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    if (one.arguments.front() != "--policy") {
      arguments.insert(arguments.end(), {"--policy", "random"});
    }
    SCOPED_TRACE(one.arguments.front() + " " + one.arguments.back());
    const ProgramOutcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.output, "");
    expect_parts(outcome.errors, one.parts);
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Run, SaysWhenTheOutputFolderCannotBeWritten) {
  const TemporaryFolder folder;
  put_file(folder / "file", "");
  const ProgramOutcome outcome = run_program(small_run(folder / "file"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "");
  expect_parts(outcome.errors, {(folder / "file").string(), "cannot write"});
}

TEST(Run, WithoutGnuplotTheTablesAreStillThere) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program(small_run(folder.path()), {"PATH=" + folder.path().string()});
  EXPECT_EQ(outcome.status, 0);
  expect_parts(outcome.output, {"linucb", "table.txt", "no picture", "gnuplot", "not installed"});
  EXPECT_FALSE(file_contents(folder / "summary.csv").empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "regret.png"));
}

TEST(Run, PoliciesAndEnvironmentsAreListedWithTheirOptions) {
  const ProgramOutcome policies = run_program({"policies"});
  EXPECT_EQ(policies.status, 0);
  expect_parts(policies.output, {"linucb", "alpha", "random", "oracle", "default"});
  const ProgramOutcome environments = run_program({"environments"});
  EXPECT_EQ(environments.status, 0);
  expect_parts(environments.output, {"synthetic", "gap", "[0, 1)", "linear | cosine"});
  expect_parts(run_program({"run", "--help"}).output,
               {"--rounds", "--seeds", "--first-seed", "--policy", "--set", "--fresh"});
}

TEST(Run, OnePolicyIsShownByItsName) {
  const ProgramOutcome one = run_program({"policies", "linucb"});
  EXPECT_EQ(one.status, 0);
  expect_parts(one.output, {"linucb: ", "paper: Li, Chu", "alpha"});
  EXPECT_EQ(one.output.find("mcnb"), std::string::npos);
  const ProgramOutcome none = run_program({"policies", "lin"});
  EXPECT_EQ(none.status, 2);
  expect_parts(none.errors, {"policy", "one of ", "linucb", "\"lin\""});
}

TEST(Run, ThePageOfPoliciesIsWhatTheProgramSays) {
  EXPECT_EQ(file_contents(std::string(MCNB_SOURCE_DIR) + "/docs/POLICIES.md"),
            run_program({"policies", "--markdown"}).output)
      << "run: mcnb policies --markdown > docs/POLICIES.md";
}

}  // namespace
}  // namespace mcnb::run_test
