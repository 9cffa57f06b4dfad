#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/model/challengers.h"
#include "mcnb/serve/model/model_options.h"

namespace mcnb {

// The settings of the service, from a TOML file, from flags, or by default.
struct ServerOptions {
  std::string data = "mcnb-data";
  std::string store;
  std::string node = "mcnb";
  double lease_seconds = 5.0;
  double preload_megabytes = 100.0;
  std::string advertise;
  std::string host = "127.0.0.1";
  std::uint64_t port = 8080;
  std::string certificate;
  std::string private_key;
  std::uint64_t threads = 0;
  std::uint64_t connections = 1024;
  std::uint64_t queue = 1024;
  double wait_seconds = 10.0;
  double decision_seconds = 10.0;
  double memory_gigabytes = 0.0;
  double idle_seconds = 60.0;
  double header_seconds = 10.0;
  double body_seconds = 20.0;
  double restart_seconds = 10.0;
  double log_gigabytes = 8.0;
  double log_days = 90.0;
  std::uint64_t connections_per_address = 256;
  std::uint64_t reserved_connections = 16;
  std::string trusted_proxies;
  std::string host_names;
  std::string origins;
  std::string audit_log;
  double request_lines = 10.0;
  bool request_ids = false;
  bool series = true;
  double idempotency_hours = 24.0;
  double verify_megabytes = 4.0;
  double check_megabytes = 64.0;
  std::uint64_t accept_loss = 0;
  std::string personalizer_model = "default";

  std::vector<ApiKey> keys;
  std::map<std::string, ModelOptions> models;  // made at the start if they are missing
  // The options of `models` that the file names, as text. Where a model differs, settings are
  // changed at the start, and for options that are fixed the start says so.
  std::map<std::string, OptionValues> named_options;
  // By model: the file, a saved policy or a log, from which it begins if it does not exist.
  std::map<std::string, std::string> imports;
  // By model: challengers that are added at the start if the model has none of the name.
  std::map<std::string, std::map<std::string, ChallengerOptions>> challengers;
};

// Throws Error (kUsage) naming the option.
void set_server_option(ServerOptions& options, const std::string& name, const std::string& text);
std::vector<OptionHelp> server_option_help();

// Reads a TOML file over the options. Throws Error: kUsage naming file, line and key; kSystem.
void read_config(const std::string& path, ServerOptions& options);
// The options as a TOML file that explains itself, and reads back the same.
std::string config_text(const ServerOptions& options);

// Throws Error (kUsage) if options contradict each other, such as a public address without keys.
void check_server_options(const ServerOptions& options);
// The names of the options that differ.
std::vector<std::string> changed_options(const ServerOptions& before, const ServerOptions& after);

// The service: makes the models from the data folder, listens, and serves until `stop`.
class Server {
 public:
  // Reads the configuration again.
  using ReadOptions = std::function<ServerOptions()>;

  // Throws Error: kUsage for bad options, kSystem, kCorrupt.
  explicit Server(const ServerOptions& options, ReadOptions read_again = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  // Reads the configuration again and uses its keys and the files of its certificate; opens the
  // audit log again. Everything else that has changed waits for the next start, which the log says.
  // Throws Error if something is wrong; everything then stays as it was. Safe from any thread.
  void reload();
  // Takes no new connections, answers the requests that are under way, and writes snapshots.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Serves until SIGINT or SIGTERM; reloads at SIGHUP.
void serve(const ServerOptions& options, Server::ReadOptions read_again);

struct Verification {
  std::vector<std::string> lines;  // one for each model, or for each damage, for people
  bool agree = true;  // nothing is damaged, and the two states of every model are equal
};
// Verifies the whole log. If it is sound, makes every model twice, from its latest snapshot and
// from its oldest base, each with the log after it, and compares the two states. Throws Error:
// kSystem if a server uses the folder (a PostgreSQL store may be in use), kCorrupt if it has less
// than was acknowledged.
Verification verify_data(const std::string& store, std::size_t threads,
                         std::uint64_t accept_loss = 0);

// The folder or the URL of the store that the options name.
std::string store_of(const ServerOptions& options);
// Makes the tables of a PostgreSQL store, or finds them; says which. Throws Error: kUsage for a
// folder, which needs no such step, kSystem, kCorrupt.
std::string migrate_store(const std::string& store);
// Copies a service from one store, a folder or a URL of PostgreSQL, into an empty one, compares
// both bit for bit, and says what was copied. Throws Error.
std::string copy_store(const std::string& from, const std::string& to);

}  // namespace mcnb
