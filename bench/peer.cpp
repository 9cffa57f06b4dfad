#include "bench/peer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "mcnb/base/error.h"

namespace mcnb::bench {
namespace {

struct Outcome {
  int status;
  std::string output;
};

// Runs a program without a shell and returns its standard output.
Outcome run_program(const std::vector<std::string>& command, bool quiet) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kSystem, "peer: cannot make a pipe");
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (quiet) {
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Outcome outcome{.status = -1, .output = {}};
  if (failed == 0) {
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
      outcome.output.append(buffer, static_cast<std::size_t>(got));
    }
    ::waitpid(child, &outcome.status, 0);
  }
  ::close(ends[0]);
  return outcome;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace

std::string find_python_with_torch() {
  for (const char* python : {"/usr/bin/python3", "python3"}) {
    if (run_program({python, "-c", "import torch"}, true).status == 0) {
      return python;
    }
  }
  return {};
}

std::vector<PeerRow> run_peer(const std::string& python, const std::string& script,
                              const std::vector<std::string>& arguments,
                              const std::vector<std::string>& texts,
                              const std::vector<std::string>& numbers) {
  const std::filesystem::path path = std::filesystem::path(MCNB_PEERS_DIR) / script;
  std::vector<std::string> command{python, path.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Outcome outcome = run_program(command, false);
  if (outcome.status != 0) {
    fmt::print(stderr, "the peer {} did not end well; its rows so far are used\n", script);
  }
  std::istringstream lines(outcome.output);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> headings = split(line);
  std::vector<PeerRow> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = split(line);
    PeerRow row;
    for (std::size_t i = 0; i < cells.size() && i < headings.size(); ++i) {
      row.texts[headings[i]] = cells[i];
    }
    bool whole = true;
    for (const std::string& name : texts) {
      whole = whole && row.texts.contains(name);
    }
    for (const std::string& name : numbers) {
      const std::string text = row.texts[name];
      const char* end = text.data() + text.size();
      double& value = row.numbers[name];
      whole = whole && std::from_chars(text.data(), end, value).ptr == end && value >= 0.0;
    }
    if (whole) {
      rows.push_back(std::move(row));
    } else {
      fmt::print(stderr, "the peer {} printed a row that is left out: {}\n", script, line);
    }
  }
  return rows;
}

}  // namespace mcnb::bench
