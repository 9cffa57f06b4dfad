#include "bench/serve_fairness.h"

#include <fmt/core.h>

#include <thread>

#include "bench/load_client.h"
#include "mcnb/serve/server.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kUsers = 2000;
constexpr std::uint64_t kHugeActions = 1000;
constexpr std::size_t kSmallConnections = 16;
constexpr std::size_t kHugeConnections = 4;
constexpr std::uint64_t kDifferentBodies = 200;

// A caller of the service with a key of its own.
class Caller {
 public:
  Caller(const ServeBenchOptions& options, std::uint64_t actions, std::uint64_t bodies)
      : key_(new_api_key()) {
    for (std::uint64_t i = 0; i < bodies; ++i) {
      bodies_.push_back(actions_text(options.features, i, actions));
    }
  }

  ApiKey key(const char* name) const { return {name, Role::kDecide, sha256_hex(key_)}; }

  // Decides for the users in turn.
  Exchange rank() {
    const std::uint64_t number = next_++;
    return post("/v1/models/bench/rank",
                fmt::format(R"({{"userId":"user-{}","actions":[{}]}})", number % kUsers,
                            bodies_[number % bodies_.size()]));
  }

  // Decides, then rewards what was decided.
  Exchange rank_and_reward(const std::string& last) {
    const std::size_t found = last.find("\"eventId\":\"");
    if (found == std::string::npos) {
      return rank();
    }
    const std::size_t begin = found + 11;
    const std::string event = last.substr(begin, last.find('"', begin) - begin);
    return post("/v1/models/bench/events/" + event + "/reward",
                fmt::format(R"({{"value":{}}})", event.back() % 2));
  }

 private:
  Exchange post(const std::string& path, const std::string& body) const {
    return {
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    path, key_, body.size(), body)};
  }

  std::string key_;
  std::uint64_t next_ = 0;
  std::vector<std::string> bodies_;
};

LoadResult ranks(std::uint16_t port, Caller& caller, std::size_t connections, double seconds) {
  return put_load(port, {.connections = connections,
                         .seconds = seconds,
                         .next = [&](std::size_t, const std::string&) { return caller.rank(); }});
}

}  // namespace

void measure_fairness(const ServeBenchOptions& options, Report& report) {
  const Folder folder(options.output);
  Caller small(options, options.actions, kDifferentBodies);
  Caller huge(options, kHugeActions, 4);
  ServerOptions settings;
  settings.data = (folder.path() / "fairness").string();
  settings.port = 0;
  settings.threads = options.threads;
  settings.keys = {small.key("small"), huge.key("huge")};
  settings.models["bench"] = mcnb_options(options, 0);
  Server server(settings);
  put_load(server.port(), {.connections = options.connections,
                           .requests = 2 * kUsers,  // so that every user has a learner
                           .next = [&](std::size_t, const std::string& last) {
                             return small.rank_and_reward(last);
                           }});
  const LoadResult alone = ranks(server.port(), small, kSmallConnections, options.seconds);
  report.add(fmt::format("{} actions, {} learners, {} connections", options.actions, kUsers,
                         kSmallConnections),
             rate(alone), alone, "alone");
  LoadResult beside;
  LoadResult large;
  {
    std::jthread other(
        [&] { large = ranks(server.port(), huge, kHugeConnections, options.seconds); });
    beside = ranks(server.port(), small, kSmallConnections, options.seconds);
  }
  report.add(fmt::format("the same beside {} actions of another key", kHugeActions), rate(beside),
             beside,
             fmt::format("asked for: p99 at most 3 times that alone; {:.1f} times",
                         beside.p99 / alone.p99));
  report.add(fmt::format("these {} actions, {} connections", kHugeActions, kHugeConnections),
             rate(large), large, "");
}

}  // namespace mcnb::bench
