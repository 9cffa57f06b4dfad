#include "mcnb/serve/server.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>

#include <future>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/api.h"
#include "mcnb/serve/http/http_server.h"

namespace mcnb {
namespace {

EngineOptions engine_options(const ServerOptions& options) {
  return {.folder = options.data,
          .threads = static_cast<std::size_t>(options.threads),
          .queue_limit = static_cast<std::size_t>(options.queue),
          .restart_seconds = options.restart_seconds,
          .log_bytes = static_cast<std::uint64_t>(options.log_gigabytes * 1e9),
          .log_days = options.log_days,
          .idempotency_hours = options.idempotency_hours,
          .verify_bytes = options.verify_megabytes * 1e6,
          .store = {.check_bytes = static_cast<std::uint64_t>(options.check_megabytes * 1e6),
                    .accept_loss = options.accept_loss}};
}

HttpOptions http_options(const ServerOptions& options) {
  HttpOptions http;
  http.host = options.host;
  http.port = static_cast<std::uint16_t>(options.port);
  http.most_connections = static_cast<std::size_t>(options.connections);
  http.idle_seconds = options.idle_seconds;
  http.header_seconds = options.header_seconds;
  http.body_seconds = options.body_seconds;
  http.certificate = options.certificate;
  http.private_key = options.private_key;
  return http;
}

// Makes the models of the configuration that do not exist yet.
void make_models(Engine& engine, const ServerOptions& options) {
  std::map<std::string, ModelOptions> wanted = options.models;
  if (wanted.empty() && engine.reports().empty()) {
    wanted["default"] = {};
  }
  for (const auto& [name, model] : wanted) {
    if (engine.options_of(name)) {
      continue;
    }
    auto task = std::make_shared<ControlTask>();
    std::promise<void> made;
    task->work = [&, name = name, model = model](ModelHost& host, Storage&, std::int64_t) {
      host.create(name, model);
    };
    task->done = [&] { made.set_value(); };
    if (!engine.submit(task)) {
      throw Error(ErrorKind::kLimit, "too many models in the configuration");
    }
    made.get_future().wait();
    if (task->error) {
      throw Error(ErrorKind::kUsage, fmt::format("model {}: {}", name, task->error->message));
    }
  }
}

const ServerOptions& checked(const ServerOptions& options) {
  check_server_options(options);
  return options;
}

}  // namespace

struct Server::Parts {
  explicit Parts(const ServerOptions& options)
      : engine(engine_options(checked(options)), clock, metrics),
        api(Handlers(engine, metrics, requests, options.personalizer_model),
            ApiKeys(options.keys)) {
    make_models(engine, options);
    http = std::make_unique<HttpServer>(
        http_options(options),
        HttpServer::Handler{[this](const HttpRequest& head) { return api.admit(head); },
                            [this](const HttpRequest& request) { return api.plan(request); }},
        requests);
  }

  SteadyClock clock;
  Metrics metrics;
  RequestMetrics requests;
  Engine engine;
  Api api;
  std::unique_ptr<HttpServer> http;
};

Server::Server(const ServerOptions& options) : parts_(std::make_unique<Parts>(options)) {
  log_info("listening", {{"host", options.host},
                         {"port", std::to_string(port())},
                         {"tls", options.certificate.empty() ? "no" : "yes"},
                         {"keys", std::to_string(options.keys.size())},
                         {"data", options.data}});
}

Server::~Server() { stop(); }

std::uint16_t Server::port() const { return parts_->http->port(); }

void Server::stop() {
  if (parts_->http) {
    parts_->http->stop_listening();
    parts_->engine.stop();
    parts_->http.reset();
    log_info("stopped");
  }
}

void serve(const ServerOptions& options) {
  // A full disk and a lost client are to be errors of system calls, not signals that end the
  // process.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  ::umask(0077);  // the data is about people: only this user may read it
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  // Threads inherit the blocked signals, so that only `sigwait` below gets them.
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Server server(options);
  int received = 0;
  ::sigwait(&signals, &received);
  log_info("stopping", {{"signal", received == SIGINT ? "SIGINT" : "SIGTERM"}});
  server.stop();
}

Verification verify_data(const std::string& folder, std::size_t threads,
                         std::uint64_t accept_loss) {
  // The check of all that follows names every damage, not only the first ones.
  const std::unique_ptr<Storage> storage = open_data_folder(
      folder, StorageAccess::kLook, {.check_bytes = 0, .accept_loss = accept_loss});
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

}  // namespace mcnb
