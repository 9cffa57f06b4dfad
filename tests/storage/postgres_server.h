#pragma once

#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/storage/postgres.h"
#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::cases {

// A PostgreSQL server of the test's own: a fresh cluster in a temporary folder, reached by a socket
// in it. PostgreSQL refuses to run as the superuser of the system, so it then runs as `postgres`.
// The destructor stops it.
class PostgresServer {
 public:
  // `settings`: such as "fsync=off".
  explicit PostgresServer(std::vector<std::string> settings = {}) : settings_(std::move(settings)) {
    if (::geteuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr || ::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
        throw std::runtime_error("PostgreSQL is not installed (see `packages`)");
      }
    }
    if (run("initdb",
            {"-D", data(), "-N", "-A", "trust", "-U", "mcnb", "--locale=C", "-E", "UTF8", "-k"})
            ->wait()
            .status != 0) {
      throw std::runtime_error("initdb failed");
    }
    start();
  }
  ~PostgresServer() {
    if (server_) {
      stop(SIGINT);
    }
  }

  void start() {
    std::vector<std::string> arguments{
        "-D", data(), "-k", folder_.path().string(), "-c", "listen_addresses="};
    for (const std::string& setting : settings_) {
      arguments.insert(arguments.end(), {"-c", setting});
    }
    server_ = run("postgres", std::move(arguments));
    while (true) {
      try {
        PostgresConnection connection(url("postgres"));
        return;
      } catch (const PostgresError&) {
        if (!server_->is_running()) {
          throw std::runtime_error("PostgreSQL ended: " + server_->errors_so_far());
        }
        ::usleep(20'000);
      }
    }
  }
  // SIGINT: in good order; SIGQUIT: as a crash.
  void stop(int signal) {
    server_->signal(signal);
    server_->wait();
    server_.reset();
  }

  std::string url(const std::string& database) const {
    return "postgresql://mcnb@/" + database + "?host=" + folder_.path().string();
  }
  // Makes an empty database and returns its URL.
  std::string new_database() {
    static std::atomic<int> number{0};
    const std::string name = "test" + std::to_string(++number);
    PostgresConnection(url("postgres")).run("CREATE DATABASE " + name);
    return url(name);
  }

  // The server that the tests of this process share.
  static PostgresServer& shared() {
    static PostgresServer server;
    return server;
  }

 private:
  std::string data() const { return folder_ / "data"; }

  // A program of PostgreSQL, as a user that it accepts; it ends with this process.
  static std::unique_ptr<Program> run(const std::string& name, std::vector<std::string> arguments) {
    std::filesystem::path newest;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql")) {
      newest = std::max(newest, version.path());
    }
    std::vector<std::string> all{"--pdeathsig", "QUIT"};
    if (::geteuid() == 0) {
      all.insert(all.end(), {"--reuid", "postgres", "--regid", "postgres", "--clear-groups"});
    }
    all.push_back(newest / "bin" / name);
    all.insert(all.end(), arguments.begin(), arguments.end());
    return std::make_unique<Program>(std::move(all), std::vector<std::string>{"LC_ALL=C"},
                                     "/usr/bin/setpriv");
  }

  std::vector<std::string> settings_;
  TemporaryFolder folder_;
  std::unique_ptr<Program> server_;
};

}  // namespace mcnb::cases
