#include "bench/serve_store.h"

#include <fmt/core.h>

#include <string>
#include <vector>

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

// Measures all services in turn, several times, and keeps of each the turn that other programs
// disturbed least.
std::vector<Loads> measure(const std::vector<std::uint16_t>& ports,
                           const ServeBenchOptions& options) {
  constexpr int kTurns = 3;
  ServeBenchOptions turn = options;
  turn.seconds /= kTurns;
  Client client(options, kUsers, options.actions);
  std::vector<Loads> best(ports.size());
  for (int i = 0; i < kTurns; ++i) {
    for (std::size_t k = 0; k < ports.size(); ++k) {
      if (i == 0) {
        both(ports[k], options, options.connections, client, kFirst);
      }
      const LoadResult one = ranks(ports[k], turn, 1, client);
      const LoadResult many = ranks(ports[k], turn, options.connections, client);
      best[k].one = i == 0 || one.p50 < best[k].one.p50 ? one : best[k].one;
      best[k].many =
          i == 0 || processor_of(many) < processor_of(best[k].many) ? many : best[k].many;
    }
  }
  return best;
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
  const Server alone(
      server_options(options, folder.path() / "alone", mcnb_options(options, options.groups)));
  const Server owner(node_options(options, folder, "owner"));
  const Server other(node_options(options, folder, "other"));
  const std::vector<Loads> loads = measure({alone.port(), owner.port(), other.port()}, options);
  const Loads& own = loads[1];
  const Loads& forwarded = loads[2];
  add(report, "data folder", options, loads[0], "", "");
  add(report, "PostgreSQL, owner", options, own, "",
      fmt::format("{} of the data folder; asked for: half",
                  percent(rate(own.many) / rate(loads[0].many))));
  add(report, "PostgreSQL, forwarded", options, forwarded,
      fmt::format("{:+.2f} ms at p50; asked for: at most 1 ms",
                  (forwarded.one.p50 - own.one.p50) * 1e3),
      fmt::format("{} of the owner's processor time without the database's; asked for: at most "
                  "130 % with it",
                  percent(processor_of(forwarded.many) / processor_of(own.many))));
}

}  // namespace mcnb::bench
