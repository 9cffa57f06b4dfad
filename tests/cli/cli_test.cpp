// Starts the real program, as a user would.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/numeric/kernels.h"
#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::cli_test {
namespace {

constexpr int kSuccess = 0;
constexpr int kFailure = 1;
constexpr int kBadUsage = 2;

// Runs mcnb to its end. `simd` is the value of MCNB_SIMD; with a null pointer it is not set.
ProgramOutcome run_mcnb(std::vector<std::string> arguments, const char* simd = nullptr) {
  const std::string variable = "MCNB_SIMD";
  return run_program(std::move(arguments), {simd == nullptr ? variable : variable + "=" + simd});
}

// Arguments for the smallest possible benchmark of networks, with the shortest possible time.
std::vector<std::string> tiny_bench(const std::string& folder) {
  return {"bench",     "networks",  "--users",  "2",    "--features", "3",
          "--width",   "4",         "--arms",   "2",    "--threads",  "1",
          "--seconds", "0.0000001", "--output", folder, "--no-peer"};
}

// The arguments as a user would type them.
std::string typed(const std::vector<std::string>& arguments) {
  std::string line = "mcnb";
  for (const std::string& argument : arguments) {
    line += " " + argument;
  }
  return line;
}

// Expects status 2, nothing on standard output, and complaints that contain all of the parts.
void expect_bad_usage(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& parts, const char* simd = nullptr) {
  SCOPED_TRACE(typed(arguments));
  const ProgramOutcome outcome = run_mcnb(arguments, simd);
  EXPECT_EQ(outcome.status, kBadUsage);
  EXPECT_EQ(outcome.output, "");
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << part << "\n" << outcome.errors;
  }
}

TEST(Cli, HelpListsTheSubcommandsAndTheEnvironment) {
  for (const char* flag : {"--help", "-h"}) {
    const ProgramOutcome outcome = run_mcnb({flag});
    EXPECT_EQ(outcome.status, kSuccess);
    EXPECT_EQ(outcome.errors, "");
    for (const char* part : {"Usage: mcnb ", "bench", "--version", "MCNB_SIMD"}) {
      EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
    }
  }
}

TEST(Cli, HelpNamesEverySimdTarget) {
  const std::string help = run_mcnb({"--help"}).output;
  for (const std::string& target : kernels::simd_targets()) {
    EXPECT_NE(help.find(target), std::string::npos) << target << "\n" << help;
  }
}

TEST(Cli, HelpOfASubcommandListsItsOptions) {
  const ProgramOutcome outcome = run_mcnb({"bench", "networks", "--help"});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_EQ(outcome.errors, "");
  for (const char* part : {"--users", "--features", "--width", "--arms", "--threads", "--seconds",
                           "--no-peer", "--output"}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
  }
}

TEST(Cli, VersionIsOneLine) {
  const ProgramOutcome outcome = run_mcnb({"--version"});
  EXPECT_EQ(outcome.status, kSuccess);
  EXPECT_EQ(outcome.output, MCNB_VERSION "\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST(Cli, WithoutASubcommandAsksForOne) {
  expect_bad_usage({}, {"subcommand is required", "--help"});
  expect_bad_usage({"bench"}, {"subcommand is required", "--help"});
}

TEST(Cli, AnUnknownSubcommandIsBadUsage) {
  expect_bad_usage({"nonsense"}, {"\"nonsense\"", "see mcnb --help"});
  expect_bad_usage({"bench", "nonsense"}, {"\"nonsense\"", "see mcnb bench --help"});
}

TEST(Cli, AnUnknownOptionOrArgumentIsNamed) {
  expect_bad_usage({"bench", "networks", "--nonsense"}, {"--nonsense", "--help"});
  expect_bad_usage({"bench", "networks", "extra"}, {"extra", "--help"});
}

TEST(Cli, AnOptionOutOfItsRangeIsNamedWithTheRange) {
  struct BadValue {
    std::string option;
    std::string value;
    std::string expected;
  };
  for (const BadValue& bad : std::vector<BadValue>{{"--users", "0", "expected 1 to 1000000000"},
                                                   {"--users", "5,0", "got 0"},
                                                   {"--users", "1000000001", "got 1000000001"},
                                                   {"--features", "0", "expected 1 to 100000"},
                                                   {"--features", "100001", "got 100001"},
                                                   {"--width", "0", "expected 1 to 16384"},
                                                   {"--width", "16385", "got 16385"},
                                                   {"--arms", "0", "expected 1 to 10000"},
                                                   {"--arms", "10001", "got 10001"},
                                                   {"--threads", "0", "expected 1 to 1024"},
                                                   {"--threads", "1025", "got 1025"},
                                                   {"--seconds", "0", "expected more than 0"},
                                                   {"--seconds", "-1", "got -1"},
                                                   {"--seconds", "3601", "at most 3600"},
                                                   {"--seconds", "nan", "got nan"},
                                                   {"--seconds", "inf", "got inf"}}) {
    expect_bad_usage({"bench", "networks", bad.option, bad.value},
                     {"mcnb: " + bad.option + ": ", bad.expected});
  }
}

TEST(Cli, AnOptionThatIsNoNumberIsNamed) {
  for (const char* option : {"--users", "--features", "--width", "--arms", "--threads"}) {
    for (const char* value : {"many", "1.5", "1e-3", "0x", "3 users"}) {
      expect_bad_usage({"bench", "networks", option, value}, {option});
    }
    expect_bad_usage({"bench", "networks", option, "-1"}, {option});
    expect_bad_usage({"bench", "networks", option}, {option});
  }
  expect_bad_usage({"bench", "networks", "--seconds", "soon"}, {"--seconds"});
}

TEST(Cli, AnUnknownSimdTargetIsRefusedWithTheNamesOfTheKnown) {
  std::vector<std::string> parts = kernels::simd_targets();
  parts.emplace_back("\"nonsense\"");
  parts.emplace_back("mcnb: ");
  expect_bad_usage({"--version"}, parts, "nonsense");
  expect_bad_usage({"bench", "networks", "--help"}, parts, "nonsense");
  parts = kernels::simd_targets();
  parts.emplace_back("\"PLAIN\"");
  expect_bad_usage({"--version"}, parts, "PLAIN");
}

TEST(Cli, ALimitHidesTheBetterSimdTargets) {
  const std::vector<std::string> targets = kernels::simd_targets();
  for (std::size_t hidden = 1; hidden < targets.size(); ++hidden) {
    const std::string limit = "MCNB_SIMD_LIMIT=" + targets[hidden];
    const ProgramOutcome refused =
        run_program({"--version"}, {limit, "MCNB_SIMD=" + targets[hidden - 1]});
    EXPECT_EQ(refused.status, kBadUsage);
    EXPECT_NE(refused.errors.find("expected one of " + targets[hidden]), std::string::npos)
        << refused.errors;
    EXPECT_EQ(run_program({"--version"}, {limit, "MCNB_SIMD=plain"}).status, kSuccess);
  }
  const ProgramOutcome unknown = run_program({"--version"}, {"MCNB_SIMD_LIMIT=nonsense"});
  EXPECT_EQ(unknown.status, kBadUsage);
  EXPECT_NE(unknown.errors.find("MCNB_SIMD_LIMIT: "), std::string::npos) << unknown.errors;
}

TEST(Cli, AnEmptySimdTargetMeansTheBest) {
  const TemporaryFolder folder;
  const std::string best = kernels::simd_targets().front();
  for (const char* simd : {static_cast<const char*>(nullptr), ""}) {
    const ProgramOutcome outcome = run_mcnb(tiny_bench(folder.path()), simd);
    EXPECT_EQ(outcome.status, kSuccess) << outcome.errors;
    EXPECT_NE(outcome.output.find(" threads, " + best + "\n"), std::string::npos) << outcome.output;
  }
}

// The benchmark compares every kernel's answers with a plain loop before it times them.
TEST(Cli, EverySimdTargetRunsTheBenchmark) {
  const std::vector<std::string> targets = kernels::simd_targets();
  ASSERT_NE(std::ranges::find(targets, "plain"), targets.end());
  for (const std::string& target : targets) {
    SCOPED_TRACE(target);
    const TemporaryFolder folder;
    const ProgramOutcome outcome = run_mcnb(tiny_bench(folder / "results"), target.c_str());
    EXPECT_EQ(outcome.status, kSuccess) << outcome.errors;
    EXPECT_NE(outcome.output.find(" threads, " + target + "\n"), std::string::npos)
        << outcome.output;
    const std::string csv = file_contents(folder / "results" / "bench-networks.csv");
    EXPECT_TRUE(csv.starts_with("users,features,")) << csv;
    EXPECT_NE(csv.find("\n2,3,"), std::string::npos) << csv;
  }
}

TEST(Cli, TheBreakdownOfARoundIsWritten) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_mcnb({"bench", "breakdown", "--users", "50", "--rounds", "2", "--meta-samples", "0,5",
                "--scan-rounds", "2", "--experiment-rounds", "20", "--no-peer", "--output",
                folder.path().string()});
  EXPECT_EQ(outcome.status, kSuccess) << outcome.errors;
  const std::string scans = file_contents(folder / "bench-scans.csv");
  EXPECT_NE(scans.find("\n50,all,50,"), std::string::npos) << scans;
  EXPECT_NE(scans.find("\n50,sampled,50,"), std::string::npos) << scans;
  const std::string rounds = file_contents(folder / "bench-breakdown.csv");
  EXPECT_TRUE(rounds.starts_with("users,meta_samples,who,")) << rounds;
  EXPECT_NE(rounds.find("\n50,0,mcnb,"), std::string::npos) << rounds;
  EXPECT_NE(rounds.find("\n50,5,mcnb,"), std::string::npos) << rounds;
  const std::string experiments = file_contents(folder / "bench-experiments.csv");
  EXPECT_NE(experiments.find("\nmcnb,20,"), std::string::npos) << experiments;
}

TEST(Cli, TheBlocksOfLabelledSamplesAreTimedBothWays) {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 60; ++i) {
    rows += fmt::format("{}.5,16,2.6,0.39,0.19,{},22,-8.2,40,81.8,{}\n", 20 + i, i - 30,
                        i % 3 == 0 ? 'h' : 'g');
  }
  put_file(folder / "magic-telescope" / "magic04.data", rows);
  const std::vector<std::string> arguments{"bench",    "blocks",
                                           "--rounds", "30",
                                           "--data",   folder.path().string(),
                                           "--output", folder.path().string()};
  const auto with = [&](const char* environment) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--environment", environment});
    return all;
  };
  const ProgramOutcome outcome = run_mcnb(with("magic-telescope"));
  EXPECT_EQ(outcome.status, kSuccess) << outcome.errors;
  const std::string csv = file_contents(folder / "bench-blocks.csv");
  EXPECT_NE(csv.find("\nmcnb,30,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nmcnb (copies of the weights),30,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nneuucb-one,30,"), std::string::npos) << csv;
  expect_bad_usage(with("synthetic"), {"labelled samples", "\"synthetic\""});
}

TEST(Cli, EveryPolicyIsTimed) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome = run_mcnb({"bench", "policies", "--users", "10", "--rounds", "30",
                                           "--no-peer", "--output", folder.path().string()});
  EXPECT_EQ(outcome.status, kSuccess) << outcome.errors;
  const std::string timings = file_contents(folder / "bench-policies.csv");
  for (const PolicyHelp& policy : policy_help()) {
    EXPECT_NE(timings.find("\n" + policy.name), std::string::npos) << policy.name;
  }
  EXPECT_NE(timings.find("\nneuucb-one:matrix=full,10,10,30,"), std::string::npos) << timings;
  for (const std::string policy : {"linucb:users=hybrid", "linucb:users=hybrid:products=yes",
                                   "hierarchical", "hierarchical:memory=no"}) {
    EXPECT_NE(timings.find("\n" + policy + ",10,10,30,"), std::string::npos) << timings;
    EXPECT_NE(timings.find("\n" + policy + ",10,20,30,"), std::string::npos) << timings;
  }
}

TEST(Cli, AResultThatCannotBeWrittenIsAFailureNamingTheFile) {
  const TemporaryFolder folder;
  put_file(folder / "taken", "a file, not a folder");
  const std::string taken = folder / "taken";
  const ProgramOutcome outcome = run_mcnb(tiny_bench(taken));
  EXPECT_EQ(outcome.status, kFailure);
  EXPECT_NE(outcome.errors.find("mcnb: " + taken), std::string::npos) << outcome.errors;
  EXPECT_EQ(file_contents(taken), "a file, not a folder");
}

}  // namespace
}  // namespace mcnb::cli_test
