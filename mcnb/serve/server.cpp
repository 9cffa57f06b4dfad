#include "mcnb/serve/server.h"

#include <fmt/core.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/cluster.h"
#include "mcnb/serve/configured_models.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/api.h"
#include "mcnb/serve/http/http_server.h"
#include "mcnb/serve/http/identifiers.h"
#include "mcnb/serve/http/request_log.h"
#include "mcnb/serve/store/copy_storage.h"
#include "mcnb/serve/store/postgres/schema.h"

namespace mcnb {
namespace {

EngineOptions engine_options(const ServerOptions& options, const std::string& instance) {
  return {.folder = options.data,
          .url = options.store,
          .threads = static_cast<std::size_t>(options.threads),
          .queue_limit = static_cast<std::size_t>(options.queue),
          .wait_seconds = options.wait_seconds,
          .decision_seconds = options.decision_seconds,
          .memory_bytes = options.memory_gigabytes * 1e9,
          .restart_seconds = options.restart_seconds,
          .log_bytes = static_cast<std::uint64_t>(options.log_gigabytes * 1e9),
          .log_days = options.log_days,
          .idempotency_hours = options.idempotency_hours,
          .verify_bytes = options.verify_megabytes * 1e6,
          .series_file = std::filesystem::path(options.data) / "series.state",
          .series = options.series,
          .store = {.check_bytes = static_cast<std::uint64_t>(options.check_megabytes * 1e6),
                    .accept_loss = options.accept_loss,
                    .node = options.node,
                    .instance = instance,
                    .lease_seconds = options.lease_seconds,
                    .may_follow = true,
                    .backups = std::filesystem::path(options.data) / "backups"}};
}

HttpOptions http_options(const ServerOptions& options) {
  HttpOptions http;
  http.host = options.host;
  http.port = static_cast<std::uint16_t>(options.port);
  http.connections.most = static_cast<std::size_t>(options.connections);
  http.connections.most_per_address = static_cast<std::size_t>(options.connections_per_address);
  http.connections.reserved = static_cast<std::size_t>(options.reserved_connections);
  http.trusted_proxies = AddressList(options.trusted_proxies, "trusted_proxies");
  http.idle_seconds = options.idle_seconds;
  http.header_seconds = options.header_seconds;
  http.body_seconds = options.body_seconds;
  return http;
}

// nullptr if the service speaks no TLS.
std::shared_ptr<const TlsIdentity> identity_of(const ServerOptions& options) {
  return options.certificate.empty()
             ? nullptr
             : std::make_shared<const TlsIdentity>(options.certificate, options.private_key);
}

// Lets the process have as many files open as it needs for all of its connections.
void allow_connections(const ServerOptions& options) {
  constexpr rlim_t kOtherFiles = 256;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t wanted = options.connections + options.reserved_connections + kOtherFiles;
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < wanted) {
    log_warning(
        "the limit of open files is too low for all connections: raise it (ulimit -n, "
        "LimitNOFILE)",
        {{"limit", std::to_string(files.rlim_cur)}, {"wanted", std::to_string(wanted)}});
  }
}

constexpr int kLargeBlock = 1 << 20;
constexpr long kStartPoll = 5'000'000;  // nanoseconds

// Waits so long for one of the signals, and returns it; 0 if none came.
int wait_for(const sigset_t& signals, long nanoseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = nanoseconds};
  return std::max(::sigtimedwait(&signals, nullptr, &time), 0);
}

// Where other nodes reach this one; empty if they cannot, because they would have to speak TLS.
std::string advertised_address(const ServerOptions& options, std::uint16_t port) {
  if (!options.advertise.empty() || !options.certificate.empty()) {
    return options.certificate.empty() ? options.advertise : "";
  }
  std::string host = options.host;
  if (host == "0.0.0.0" || host == "::") {
    host.resize(256);
    ::gethostname(host.data(), host.size() - 1);
    host.resize(std::strlen(host.c_str()));
  }
  return fmt::format("{}:{}", host.find(':') == std::string::npos ? host : '[' + host + ']', port);
}

const ServerOptions& checked(const ServerOptions& options) {
  check_server_options(options);
  return options;
}

}  // namespace

struct Server::Parts {
  Parts(const ServerOptions& given, ReadOptions read)
      : options(checked(given)),
        read_again(std::move(read)),
        audit(options.audit_log),
        lines(options.request_lines, options.request_ids),
        engine(engine_options(options, instance), clock, metrics),
        api(Handlers(
                engine, metrics, requests, options.personalizer_model,
                options.store.empty() ? options.data : options.store, [this] { return reload(); },
                [this] { return nodes(); }),
            ApiKeys(options.keys), CallerPolicy(options.host_names, options.origins), audit,
            requests) {
    const std::lock_guard lock(reloading);  // clients may ask for it before `http` is set
    std::shared_ptr<const TlsIdentity> identity = identity_of(options);
    if (engine.ready()) {
      configure_models(engine, options);
    } else {
      configurer = std::jthread([this](const std::stop_token& stop) { configure_later(stop); });
    }
    if (!options.store.empty()) {
      cluster = std::make_unique<Cluster>(
          Cluster::Options{.url = options.store,
                           .self = {.instance = instance, .name = options.node},
                           .lease_seconds = options.lease_seconds,
                           .wait_seconds = options.wait_seconds,
                           .preload_bytes = options.preload_megabytes * 1e6},
          engine, [this](const HttpRequest& request) { return api.plan(request); },
          [this](const HttpRequest& request, HttpResponse& response) {
            api.finish_forwarded(request, response);
          },
          requests);
    }
    http = std::make_unique<HttpServer>(
        http_options(options), std::move(identity),
        HttpServer::Handler{
            [this](const HttpRequest& head) { return api.admit(head); },
            [this](const HttpRequest& request) {
              return cluster ? cluster->plan(request) : api.plan(request);
            },
            [this] { sample_requests(); },
            [this](const HttpRequest& request, const HttpResponse& response, double seconds) {
              lines.write(request, response, seconds, std::chrono::steady_clock::now());
            }},
        requests);
    if (cluster) {
      cluster->announce(advertised_address(options, http->port()));
    }
  }

  Handlers::Reloaded reload();
  void sample_requests();
  void configure_later(const std::stop_token& stop);
  std::vector<Node> nodes();

  ServerOptions options;
  ReadOptions read_again;
  AuditLog audit;
  RequestLog lines;  // for the thread of `http`
  SteadyClock clock;
  Metrics metrics;
  RequestMetrics requests;
  const std::string instance = random_id();
  Engine engine;
  Api api;
  std::mutex reloading;
  double next_sample = 0.0;          // uptime, in seconds; for the thread of `http`
  std::unique_ptr<Cluster> cluster;  // null: it serves a data folder, alone
  std::unique_ptr<HttpServer> http;
  std::jthread configurer;
};

void Server::Parts::sample_requests() {
  constexpr double kSampleSeconds = 0.5;
  if (clock.uptime() < next_sample) {
    return;
  }
  next_sample = clock.uptime() + kSampleSeconds;
  ServiceTotals totals = requests.totals();
  totals.log_bytes = engine.log_bytes();
  totals.memory_bytes = metrics.memory_bytes;
  engine.series().sample(totals, clock.system_now());
}

// Once this node serves: until then the models are another node's.
void Server::Parts::configure_later(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPoll(50);
  while (!engine.ready()) {
    if (stop.stop_requested()) {
      return;
    }
    std::this_thread::sleep_for(kPoll);
  }
  try {
    configure_models(engine, options);
  } catch (const std::exception& error) {
    log_error("the models of the configuration could not be made", {{"detail", error.what()}});
  }
}

std::vector<Node> Server::Parts::nodes() {
  if (cluster) {
    std::vector<Node> all = cluster->nodes();
    for (Node& node : all) {  // with the lease, this node may still be unable to serve
      node.owner = node.owner && (node.instance != instance || engine.ready());
    }
    return all;
  }
  const std::lock_guard lock(reloading);
  return {{.instance = instance,
           .name = options.node,
           .address = advertised_address(options, http->port()),
           .owner = engine.ready()}};
}

// Everything that can fail comes before anything is changed.
Handlers::Reloaded Server::Parts::reload() {
  const std::lock_guard lock(reloading);
  const ServerOptions next = read_again ? read_again() : options;
  check_server_options(next);
  ApiKeys keys(next.keys);
  const std::shared_ptr<const TlsIdentity> identity = identity_of(next);
  if ((identity == nullptr) != options.certificate.empty()) {
    throw Error(ErrorKind::kUsage, "certificate: TLS cannot begin or end without a restart");
  }
  if (next.keys.empty() && !options.keys.empty()) {
    // Perhaps the file is being written: nobody may become an administrator by that.
    throw Error(ErrorKind::kUsage, "keys: the last ones cannot go without a restart");
  }
  if (!next.keys.empty() && options.keys.empty()) {
    log_warning("requests need keys now");
  }
  audit.reopen();
  if (identity != nullptr) {
    http->use_identity(identity);
  }
  api.use_keys(std::move(keys));
  for (const std::string& name : changed_options(options, next)) {
    if (name != "certificate" && name != "private_key") {
      log_warning("a changed option waits for the next start", {{"option", name}});
    }
  }
  options.keys = next.keys;
  options.certificate = next.certificate;
  options.private_key = next.private_key;
  log_info("reloaded", {{"keys", std::to_string(next.keys.size())},
                        {"tls", identity == nullptr ? "no" : "yes"}});
  return {next.keys.size(), identity != nullptr};
}

Server::Server(const ServerOptions& options, ReadOptions read_again)
    : parts_(std::make_unique<Parts>(options, std::move(read_again))) {}

Server::~Server() { stop(); }

std::uint16_t Server::port() const { return parts_->http->port(); }

void Server::reload() { parts_->reload(); }

void Server::stop() {
  if (parts_->http) {
    if (parts_->cluster) {
      parts_->cluster->hand_over();
    }
    parts_->http->stop_listening();
    parts_->configurer.request_stop();
    parts_->engine.stop();
    if (parts_->cluster) {
      parts_->cluster->drain([this] { return parts_->requests.connections.load() > 0; });
    }
    parts_->http.reset();
    log_info("stopped");
  }
}

namespace {

const char* name_of(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

sigset_t set_of(std::initializer_list<int> numbers) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : numbers) {
    ::sigaddset(&signals, number);
  }
  return signals;
}

// A start may replay for a long time. SIGINT and SIGTERM can end it at any moment, as by a crash:
// whatever it had begun to change is whole or not there. SIGHUP stays pending meanwhile.
std::unique_ptr<Server> start(const ServerOptions& options, Server::ReadOptions read_again) {
  std::future<std::unique_ptr<Server>> starting = std::async(
      std::launch::async, [&] { return std::make_unique<Server>(options, std::move(read_again)); });
  const sigset_t ending = set_of({SIGINT, SIGTERM});
  for (;;) {
    const int received = wait_for(ending, kStartPoll);
    if (starting.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      if (received != 0) {
        ::raise(received);  // the server is there by now: it ends in good order
      }
      return starting.get();
    }
    if (received != 0) {
      log_info("stopping while starting", {{"signal", name_of(received)}});
      ::_exit(0);
    }
  }
}

}  // namespace

void serve(const ServerOptions& options, Server::ReadOptions read_again) {
  // A full disk and a lost client are to be errors of system calls, not signals that end the
  // process.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::umask(0077);  // the data is about people: only this user may read it
  // Blocks above this size, such as snapshots, go back to the system as soon as they are free.
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  const sigset_t signals = set_of({SIGINT, SIGTERM, SIGHUP});
  // Threads inherit the blocked signals, so that only this one waits for them.
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  allow_connections(options);
  const std::unique_ptr<Server> server = start(options, std::move(read_again));
  // Not earlier: whoever reads this may send a signal at once.
  log_info("listening",
           {{"host", options.host},
            {"port", std::to_string(server->port())},
            {"tls", options.certificate.empty() ? "no" : "yes"},
            {"keys", std::to_string(options.keys.size())},
            {"data", options.store.empty() ? options.data : postgres_name(options.store)}});
  int received = 0;
  while (::sigwait(&signals, &received) == 0 && received == SIGHUP) {
    try {
      server->reload();
    } catch (const std::exception& error) {
      log_error("reloading failed; everything stays as it was", {{"detail", error.what()}});
    }
  }
  log_info("stopping", {{"signal", name_of(received)}});
  server->stop();
}

Verification verify_data(const std::string& store, std::size_t threads, std::uint64_t accept_loss) {
  // The check of all that follows names every damage, not only the first ones.
  const std::unique_ptr<Storage> storage =
      open_storage(store, StorageAccess::kLook, {.check_bytes = 0, .accept_loss = accept_loss});
  Verification result;
  for (const Damage& damage : storage->log().verify_all()) {
    result.agree = false;
    result.lines.push_back("damaged: " + text_of(damage));
  }
  if (!result.agree) {
    return result;
  }
  ThreadPool pool(threads);
  const auto digests = [&](bool from_base) {
    ModelHost host(*storage, pool);
    host.recover(from_base);
    return host.digests();
  };
  const auto latest = digests(false);
  const auto base = digests(true);
  for (const auto& [name, digest] : latest) {
    const bool same = base.at(name) == digest;
    result.agree = result.agree && same;
    result.lines.push_back(
        fmt::format("model {}: state {:016x}: {}", name, digest,
                    same ? "the base and the log give the same state"
                         : fmt::format("but the base and the log give {:016x}", base.at(name))));
  }
  return result;
}

std::string store_of(const ServerOptions& options) {
  return options.store.empty() ? options.data : options.store;
}

std::string migrate_store(const std::string& store) {
  if (!is_postgres_url(store)) {
    throw Error(ErrorKind::kUsage,
                "--migrate: expected --store postgresql://...: a data folder is made and migrated "
                "by the start of the service");
  }
  const Migrated done = migrate_postgres(store);
  return fmt::format("{}: {}", postgres_name(store),
                     done == Migrated::kMade ? "the tables were made"
                     : done == Migrated::kChanged
                         ? fmt::format("the tables were brought to layout {}", kPostgresLayout)
                         : "the tables are there");
}

std::string copy_store(const std::string& from, const std::string& to) {
  const std::unique_ptr<Storage> source = open_storage(from, StorageAccess::kLook);
  const std::unique_ptr<Storage> target = open_storage(to, StorageAccess::kOwn);
  const CopyReport report = copy_storage(*source, *target);
  return fmt::format(
      "copied {} models with {} rows, {} ids and {} snapshots from {} to {}; read again, they are "
      "the same bit for bit",
      report.models, report.rows, report.ids, report.snapshots, source->log().name(),
      target->log().name());
}

}  // namespace mcnb
