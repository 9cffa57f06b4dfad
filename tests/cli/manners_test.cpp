// How the command line treats people: typing errors, help, tables on a terminal, completion.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::manners_test {
namespace {

using json = nlohmann::json;

constexpr int kBadUsage = 2;

// Runs mcnb on a terminal of so many columns. What it prints there ends its lines with CR and LF.
ProgramOutcome on_terminal(int columns, const std::string& arguments,
                           std::vector<std::string> variables = {}) {
  variables.emplace_back("TERM=xterm");
  Program program(
      {"-qec", fmt::format("stty cols {}; {} {}", columns, MCNB_BINARY, arguments), "/dev/null"},
      std::move(variables), "/usr/bin/script");
  return program.wait();
}

std::string shell(const std::string& script) {
  return Program({"-c", script}, {}, "/bin/bash").wait().output;
}

TEST(Manners, AMistypedFlagNamesItselfAndTheNearestOne) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run", "--polcy", "mcnb"}, "unknown flag \"--polcy\": did you mean --policy?"},
      {{"run", "--ruonds=5"}, "unknown flag \"--ruonds\": did you mean --rounds?"},
      {{"data", "check", "yelp", "--dta", "x"}, "unknown flag \"--dta\": did you mean --data?"},
      {{"--versoin"}, "unknown flag \"--versoin\": did you mean --version?"},
      {{"serve", "--zzzzzz"}, "unknown flag \"--zzzzzz\"; see mcnb serve --help"},
      {{"run", "-p", "mcnb"}, "unknown flag \"-p\""},
      {{"rnu"}, "expected a command, got \"rnu\": did you mean run?"},
      {{"data", "lsit"}, "expected a command, got \"lsit\": did you mean list?"},
      {{"help", "evalute"}, "mcnb: there is no command \"mcnb evalute\": did you mean evaluate?"},
      {{"run", "of-mine"}, "expected the file of a plan, got \"of-mine\""},
  };
  for (const auto& [arguments, expected] : cases) {
    const ProgramOutcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.status, kBadUsage) << expected;
    EXPECT_EQ(outcome.output, "") << expected;
    EXPECT_NE(outcome.errors.find(expected), std::string::npos) << expected << "\n"
                                                                << outcome.errors;
  }
}

TEST(Manners, WhatFollowsAFlagIsNoFlag) {
  const ProgramOutcome outcome =
      run_program({"evaluate", "nothing.json", "--policy", "first", "--reward-range", "-1", "-.5"});
  EXPECT_EQ(outcome.errors.find("unknown flag"), std::string::npos) << outcome.errors;
}

TEST(Manners, HelpIsACommandToo) {
  for (const std::string command : {"run", "data get", "bench serve"}) {
    std::vector<std::string> words{"help"};
    std::istringstream parts(command);
    for (std::string word; parts >> word;) {
      words.push_back(word);
    }
    std::vector<std::string> flag(words.begin() + 1, words.end());
    flag.push_back("--help");
    const ProgramOutcome outcome = run_program(words);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.output, run_program(flag).output);
    EXPECT_NE(outcome.output.find("Usage: mcnb " + command), std::string::npos) << outcome.output;
  }
  EXPECT_EQ(run_program({"help"}).output, run_program({"--help"}).output);
}

TEST(Manners, VersionIsACommandToo) {
  const std::string number = run_program({"--version"}).output;
  EXPECT_EQ(run_program({"version"}).output.find("mcnb " + number), 0U);
  const json version = json::parse(run_program({"version", "--json"}).output);
  EXPECT_EQ(version.at("version").get<std::string>() + "\n", number);
  EXPECT_TRUE(version.contains("instruction set"));
}

TEST(Manners, NumbersMayBePowersOfTen) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome =
      run_program({"run", "--rounds", "1e2", "--seeds", "2e0", "--policy", "random", "--output",
                   (folder / "out").string(), "--set", "users=1e1"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json results = json::parse(file_contents(folder / "out" / "results.json"));
  EXPECT_NE(results.dump().find("\"rounds\":100"), std::string::npos) << results.dump();
  for (const char* bad : {"1e-2", "1.5", "1e999", "e4"}) {
    EXPECT_EQ(run_program({"run", "--rounds", bad}).status, kBadUsage) << bad;
  }
  EXPECT_NE(run_program({"log", "show", "nothing", "--rounds", "1e1"}).errors.find("nothing"),
            std::string::npos);
}

TEST(Manners, EveryTableIsJsonIfAskedFor) {
  const json sets = json::parse(run_program({"data", "list", "--json"}).output);
  EXPECT_EQ(sets.at("data sets").size(), sets.at("sources").size());
  EXPECT_TRUE(sets.at("data sets").at(0).contains("licence"));
  const json policies = json::parse(run_program({"policies", "--json"}).output);
  EXPECT_EQ(policies.at("linucb").at(0).at("option"), "lambda");
  const json worlds = json::parse(run_program({"environments", "--json"}).output);
  EXPECT_TRUE(worlds.contains("synthetic") && worlds.contains("ratings"));
  const TemporaryFolder folder;
  const ProgramOutcome run = run_program({"run", "--rounds", "50", "--policy", "random,linucb",
                                          "--output", (folder / "out").string(), "--json"});
  ASSERT_EQ(run.status, 0) << run.errors;
  const json table = json::parse(run.output).begin().value();
  ASSERT_EQ(table.size(), 2U);
  std::size_t numbers = 0;
  for (const auto& [heading, cell] : table.at(0).items()) {
    numbers += cell.is_number() ? 1 : 0;
  }
  EXPECT_GT(numbers, 1U) << table;
  EXPECT_NE(run.errors.find("picture"), std::string::npos) << "the rest goes to standard error";
}

TEST(Manners, TablesFitTheTerminal) {
  const auto longest = [](const std::string& text) {
    std::istringstream lines(text);
    std::size_t most = 0;
    for (std::string line; std::getline(lines, line);) {
      most = std::max(most, line.find_last_not_of('\r') + 1);
    }
    return most;
  };
  const std::vector<std::string> plain{"NO_COLOR=1"};
  const std::string narrow = on_terminal(60, "policies linucb", plain).output;
  ASSERT_NE(narrow.find("option "), std::string::npos) << narrow;
  EXPECT_LE(longest(narrow.substr(narrow.find("option "))), 60U) << narrow;
  const std::string policy = on_terminal(90, "policies linucb", plain).output;
  EXPECT_NE(policy.find("meaning"), std::string::npos) << "long texts are cut into lines\n"
                                                       << policy;
  const std::string list = on_terminal(60, "data list", plain).output;
  EXPECT_NE(list.find("(--wide also shows: "), std::string::npos) << list;
  EXPECT_EQ(list.find("public domain"), std::string::npos) << list;
  const std::string wide = on_terminal(60, "data list --wide", plain).output;
  EXPECT_NE(wide.find("public domain"), std::string::npos) << wide;
  EXPECT_NE(run_program({"data", "list"}).output.find("public domain"), std::string::npos)
      << "a file gets everything";
}

TEST(Manners, OnlyATerminalGetsColours) {
  EXPECT_NE(on_terminal(200, "policies linucb").output.find("\x1b["), std::string::npos);
  EXPECT_NE(on_terminal(200, "rnu").output.find("\x1b[31mmcnb:"), std::string::npos);
  const std::string colourless = on_terminal(200, "policies linucb", {"NO_COLOR=1"}).output;
  EXPECT_EQ(colourless.find("\x1b["), std::string::npos);
  EXPECT_EQ(run_program({"policies", "linucb"}).output.find("\x1b["), std::string::npos);
  EXPECT_EQ(run_program({"rnu"}).errors.find("\x1b["), std::string::npos);
}

TEST(Manners, BashCompletesCommandsAndFlags) {
  const auto completed = [](const std::string& words, int at) {
    return shell(
        fmt::format("source <({} completion bash); COMP_WORDS=({}); COMP_CWORD={}; _mcnb; echo "
                    "${{COMPREPLY[@]}}",
                    MCNB_BINARY, words, at));
  };
  EXPECT_EQ(completed("mcnb ru", 1), "run\n");
  EXPECT_EQ(completed("mcnb data li", 2), "list\n");
  EXPECT_EQ(completed("mcnb run --rou", 2), "--rounds\n");
  EXPECT_EQ(completed("mcnb data list --js", 3), "--json\n");
  EXPECT_EQ(completed("mcnb serve --print", 2), "--print-config\n");
  EXPECT_EQ(completed("mcnb run --policy linu", 3), "linucb\n");
  EXPECT_EQ(completed("mcnb run --policy = linu", 4), "linucb\n");
  EXPECT_EQ(completed("mcnb run --policy mcnb,linu", 3), "mcnb,linucb\n");
  EXPECT_EQ(completed("mcnb run --environment synth", 3), "synthetic\n");
  EXPECT_EQ(completed("mcnb policies clu", 2), "club\n");
  EXPECT_EQ(completed("mcnb data get fashion", 3), "fashion-mnist\n");
  EXPECT_EQ(completed("mcnb help reprod", 2), "reproduce\n");
  EXPECT_EQ(completed("mcnb run --output ''", 3), "\n") << "the shell then offers files";
}

TEST(Manners, FishCompletesNamesToo) {
  const auto completed = [](const std::string& line) {
    return shell(
        fmt::format("fish --no-config -c '{} completion fish | source; complete -C \"{}\"'",
                    MCNB_BINARY, line));
  };
  EXPECT_EQ(completed("mcnb run --policy linu"), "linucb\n");
  EXPECT_EQ(completed("mcnb run --policy=mcnb,linu"), "--policy=mcnb,linucb\n");
  EXPECT_EQ(completed("mcnb data get fashion"), "fashion-mnist\n");
}

TEST(Manners, OtherShellsAndTheManualHaveEveryCommand) {
  for (const std::string command : {"reproduce", "evaluate", "serve", "completion"}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"completion", "zsh"}, {"completion", "fish"}, {"manual"}}) {
      const ProgramOutcome outcome = run_program(words);
      EXPECT_EQ(outcome.status, 0);
      EXPECT_NE(outcome.output.find(command), std::string::npos) << words.back();
    }
  }
  EXPECT_EQ(run_program({"completion", "tcsh"}).status, kBadUsage);
}

}  // namespace
}  // namespace mcnb::manners_test
