#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/program.h"
#include "tests/serve/http_client.h"

namespace mcnb {

// The port on which the server says that it listens; nullopt if it has not said so yet.
inline std::optional<std::uint16_t> port_in(const std::string& log) {
  const std::size_t line = log.find("\"listening\"");
  const std::size_t port = line == std::string::npos ? line : log.find("\"port\":\"", line);
  if (port == std::string::npos) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(std::atoi(log.c_str() + port + 8));
}

// The program that the tests start as a service: the one that MCNB_SERVE_BINARY names, otherwise
// the one that was built with them.
inline std::string served_binary() {
  const char* const named = std::getenv("MCNB_SERVE_BINARY");
  return named != nullptr && *named != '\0' ? named : MCNB_BINARY;
}

// The real `mcnb serve` on a free port, beside the test.
class ServerProgram {
 public:
  explicit ServerProgram(const std::filesystem::path& data, std::vector<std::string> more = {},
                         const std::string& binary = served_binary(),
                         std::vector<std::string> variables = {})
      : program_(arguments(data, std::move(more)), std::move(variables), binary) {}

  // Waits until the server listens. Throws if it ends instead.
  std::uint16_t port() {
    while (!port_) {
      const bool running = program_.is_running();
      port_ = port_in(program_.errors_so_far());
      if (!port_ && !running) {
        throw std::runtime_error("the server ended: " + program_.errors_so_far());
      }
      if (!port_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
    return *port_;
  }

  void kill() { program_.signal(SIGKILL); }
  // Shuts the server down in good order.
  ProgramOutcome stop() {
    program_.signal(SIGTERM);
    return program_.wait();
  }
  ProgramOutcome wait() { return program_.wait(); }
  Program& program() { return program_; }

 private:
  static std::vector<std::string> arguments(const std::filesystem::path& data,
                                            std::vector<std::string> more) {
    std::vector<std::string> all{"serve", "--data", data.string(), "--port", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Program program_;
  std::optional<std::uint16_t> port_;
};

}  // namespace mcnb
