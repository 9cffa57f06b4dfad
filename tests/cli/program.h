#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/temporary_folder.h"

namespace mcnb {

struct ProgramOutcome {
  int status;  // -1 if a signal ended the program
  std::string output;
  std::string errors;
};

// The real mcnb, running beside the test. `variables` are set for it ("PATH=folder"); a name alone
// ("PATH") unsets the variable. `binary` is the program to run instead of mcnb.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, std::vector<std::string> variables = {},
                   const std::string& binary = MCNB_BINARY) {
    arguments.insert(arguments.begin(), binary);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const auto same_name = [name = name_of(*variable)](const std::string& other) {
        return name_of(other) == name;
      };
      if (std::ranges::none_of(variables, same_name)) {
        variables.emplace_back(*variable);
      }
    }
    std::erase_if(variables,
                  [](const std::string& text) { return text.find('=') == std::string::npos; });
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    const auto redirect = [&](int file, const std::string& path, int flags) {
      ::posix_spawn_file_actions_addopen(&files, file, path.c_str(), flags, 0600);
    };
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, folder_ / "output", O_WRONLY | O_CREAT);
    redirect(STDERR_FILENO, folder_ / "errors", O_WRONLY | O_CREAT);
    const int problem = ::posix_spawn(&process_, binary.c_str(), &files, nullptr,
                                      pointers_to(arguments).data(), pointers_to(variables).data());
    ::posix_spawn_file_actions_destroy(&files);
    if (problem != 0) {
      throw std::runtime_error(binary + ": " + std::strerror(problem));
    }
  }
  ~Program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Sends SIGINT, as Ctrl-C does.
  void interrupt() const { ::kill(process_, SIGINT); }

  void limit(__rlimit_resource resource, const rlimit& bounds) const {
    ::prlimit(process_, resource, &bounds, nullptr);
  }
  void signal(int number) const { ::kill(process_, number); }
  pid_t id() const { return process_; }

  // The text that the program has written to standard error so far.
  std::string errors_so_far() const { return file_contents(folder_ / "errors"); }

  // Returns false once the program has ended; wait() still returns its outcome.
  bool is_running() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }

  ProgramOutcome wait() {
    int status = 0;
    if (::waitpid(process_, &status, 0) != process_) {
      throw std::runtime_error("cannot wait for mcnb");
    }
    process_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_contents(folder_ / "output"),
            file_contents(folder_ / "errors")};
  }

 private:
  static std::string_view name_of(std::string_view variable) {
    return variable.substr(0, variable.find('='));
  }

  // Returns pointers to the strings, ended by a null pointer, as exec requires.
  static std::vector<char*> pointers_to(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    for (std::string& text : strings) {
      pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
  }

  TemporaryFolder folder_;
  pid_t process_ = 0;
};

inline ProgramOutcome run_program(std::vector<std::string> arguments,
                                  std::vector<std::string> variables = {}) {
  return Program(std::move(arguments), std::move(variables)).wait();
}

}  // namespace mcnb
