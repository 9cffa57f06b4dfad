#include "bench/serve_store.h"

#include <fmt/core.h>

#include "bench/report.h"
#include "mcnb/serve/server.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kUsers = 100'000;
constexpr std::uint64_t kFirst = 2000;  // requests after which learners have learned something

// Of decisions without rewards, with one connection and with many.
struct Loads {
  LoadResult one;
  LoadResult many;
};

double processor_of(const LoadResult& load) {
  return load.processor_seconds / static_cast<double>(load.answers);
}

ServerOptions node_options(const ServeBenchOptions& options, const Folder& folder,
                           const std::string& name) {
  ServerOptions node =
      server_options(options, folder.path() / name, mcnb_options(options, options.groups));
  node.store = options.store;
  node.node = name;
  return node;
}

Loads measure(std::uint16_t port, const ServeBenchOptions& options) {
  Client client(options, kUsers, options.actions);
  both(port, options, options.connections, client, kFirst);
  Loads loads;
  loads.one = ranks(port, options, 1, client);
  loads.many = ranks(port, options, options.connections, client);
  return loads;
}

void add(Report& report, const std::string& where, const ServeBenchOptions& options,
         const Loads& loads, const std::string& note_one, const std::string& note_many) {
  report.add(fmt::format("decisions, {}, 1 connection", where), rate(loads.one), loads.one,
             note_one);
  report.add(fmt::format("decisions, {}, {} connections", where, options.connections),
             rate(loads.many), loads.many, note_many);
}

}  // namespace

void measure_store(const ServeBenchOptions& options, Report& report) {
  migrate_store(options.store);
  const Folder folder(options.output);
  Loads folder_loads;
  {
    const Server alone(
        server_options(options, folder.path() / "alone", mcnb_options(options, options.groups)));
    folder_loads = measure(alone.port(), options);
  }
  add(report, "data folder", options, folder_loads, "", "");
  const Server owner(node_options(options, folder, "owner"));
  const Server other(node_options(options, folder, "other"));
  const Loads own = measure(owner.port(), options);
  add(report, "PostgreSQL, owner", options, own, "",
      fmt::format("{} of the data folder; asked for: half",
                  percent(rate(own.many) / rate(folder_loads.many))));
  const Loads forwarded = measure(other.port(), options);
  add(report, "PostgreSQL, forwarded", options, forwarded,
      fmt::format("{:+.2f} ms at p50; asked for: at most 1 ms",
                  (forwarded.one.p50 - own.one.p50) * 1e3),
      fmt::format("{} of the owner's processor time without the database's; asked for: at most "
                  "130 % with it",
                  percent(processor_of(forwarded.many) / processor_of(own.many))));
}

}  // namespace mcnb::bench
