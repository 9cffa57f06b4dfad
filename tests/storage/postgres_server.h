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
    give_folder_to_server();
    finish("initdb",
           {"-D", data(), "-N", "-A", "trust", "-U", "mcnb", "--locale=C", "-E", "UTF8", "-k"});
    start();
  }
  // A standby of another server, made from a copy of it. It follows until `promote`.
  static std::unique_ptr<PostgresServer> standby_of(const PostgresServer& primary) {
    std::unique_ptr<PostgresServer> standby(new PostgresServer(primary.settings_, primary.folder_));
    return standby;
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
        PostgresConnection connection(url("postgres") + "&target_session_attrs=any");
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

  // From now on a commit is answered when a standby has it, too; or, with false, without.
  void wait_for_standby(bool wait) {
    PostgresConnection connection(url("postgres"));
    connection.run(std::string("ALTER SYSTEM SET synchronous_standby_names = ") +
                   (wait ? "'*'" : "''"));
    connection.run("SELECT pg_reload_conf()");
  }
  // Makes a primary of a standby, and waits until it can be written.
  void promote() {
    PostgresConnection(url("postgres") + "&target_session_attrs=any")
        .run("SELECT pg_promote(true, 60)");
  }

  std::string url(const std::string& database) const {
    return "postgresql://mcnb@/" + database + "?host=" + folder_.path().string();
  }
  // Where its socket is.
  std::filesystem::path folder() const { return folder_.path(); }
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
  PostgresServer(std::vector<std::string> settings, const TemporaryFolder& primary)
      : settings_(std::move(settings)) {
    give_folder_to_server();
    finish("pg_basebackup", {"-D", data(), "-h", primary.path().string(), "-U", "mcnb", "-R",
                             "--checkpoint=fast", "--no-sync"});
    start();
  }

  void give_folder_to_server() {
    if (::geteuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr || ::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
        throw std::runtime_error("PostgreSQL is not installed (see `packages`)");
      }
    }
  }

  std::string data() const { return folder_ / "data"; }

  static void finish(const std::string& name, std::vector<std::string> arguments) {
    const ProgramOutcome outcome = run(name, std::move(arguments))->wait();
    if (outcome.status != 0) {
      throw std::runtime_error(name + " failed: " + outcome.errors);
    }
  }

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
