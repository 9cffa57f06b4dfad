#include "bench/serve_parts.h"

#include <fmt/core.h>

#include <cstdio>

#include "bench/report.h"
#include "mcnb/base/random.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kBodies = 2000;  // different requests

std::string features_text(Rng& rng, std::uint64_t count) {
  std::string text = "[";
  for (std::uint64_t i = 0; i < count; ++i) {
    text += fmt::format("{}{:.4f}", i == 0 ? "" : ",", rng.normal());
  }
  return text + "]";
}

}  // namespace

std::string actions_text(std::uint64_t features, std::uint64_t number, std::uint64_t actions) {
  Rng rng(1, Stream::kBenchmark, number);
  std::string text;
  for (std::uint64_t i = 0; i < actions; ++i) {
    text += fmt::format("{}{{\"id\":\"item-{}\",\"features\":{}}}", i == 0 ? "" : ",", i,
                        features_text(rng, features));
  }
  return text;
}

std::string mcnb_policy(const ServeBenchOptions& options, const std::string& more) {
  return fmt::format("mcnb:width={}:feedback=served{}{}", options.width, more.empty() ? "" : ":",
                     more);
}

ModelOptions model_options(const ServeBenchOptions& options, std::uint64_t groups,
                           const std::string& policy) {
  ModelOptions model;
  model.dimension = options.features;
  model.groups = groups;
  model.policy = parse_policy(policy);
  return model;
}

ModelOptions mcnb_options(const ServeBenchOptions& options, std::uint64_t groups) {
  return model_options(options, groups, mcnb_policy(options, options.policy));
}

ServerOptions server_options(const ServeBenchOptions& options, const std::filesystem::path& folder,
                             const ModelOptions& model) {
  ServerOptions server;
  server.data = folder.string();
  server.port = 0;
  server.threads = options.threads;
  server.connections_per_address = 0;  // all load comes from this machine
  server.request_lines = 0.0;
  server.models["bench"] = model;
  return server;
}

Client::Client(const ServeBenchOptions& options, std::uint64_t users, std::uint64_t actions)
    : users_(users) {
  for (std::uint64_t i = 0; i < kBodies; ++i) {
    bodies_.push_back(actions_text(options.features, i, actions));
  }
}

Exchange Client::rank() {
  const std::uint64_t number = next_++;
  return {post("/v1/models/bench/rank", fmt::format(R"({{"userId":"user-{}","actions":[{}]}})",
                                                    number % users_, bodies_[number % kBodies]))};
}

Exchange Client::in_turn(const std::string& last) {
  const std::size_t found = last.find("\"eventId\":\"");
  if (found == std::string::npos) {
    return rank();
  }
  const std::size_t begin = found + 11;
  const std::string event = last.substr(begin, last.find('"', begin) - begin);
  return {post("/v1/models/bench/events/" + event + "/reward",
               fmt::format(R"({{"value":{}}})", event.back() % 2)),
          false};
}

std::string post(const std::string& path, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      path, body.size(), body);
}

LoadResult ranks(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                 Client& client) {
  return put_load(port, {.connections = connections,
                         .seconds = options.seconds,
                         .next = [&](std::size_t, const std::string&) { return client.rank(); }});
}

LoadResult both(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                Client& client, std::uint64_t requests) {
  return put_load(
      port, {.connections = connections,
             .seconds = options.seconds,
             .requests = requests,
             .next = [&](std::size_t, const std::string& last) { return client.in_turn(last); }});
}

double rate(const LoadResult& load) { return static_cast<double>(load.answers) / load.seconds; }

void Report::add(const std::string& what, double per_second, const LoadResult& load,
                 const std::string& note) {
  const bool timed = load.answers > 0;
  const auto answers = static_cast<double>(load.answers);
  const std::string shown = fmt::format("{:.{}f}", per_second, per_second < 10.0 ? 2 : 0);
  table_.add_row({what, per_second > 0 ? shown : "", timed ? milliseconds(load.p50) : "",
                  timed ? milliseconds(load.p99) : "", timed ? milliseconds(load.p999) : "",
                  timed ? milliseconds(load.processor_seconds / answers) : "", note});
  display_.say(fmt::format("{}: {}/s, p50 {:.3f} ms, p99 {:.3f} ms, p99.9 {:.3f} ms {}\n", what,
                           shown, load.p50 * 1e3, load.p99 * 1e3, load.p999 * 1e3, note));
  std::fflush(stdout);
}

}  // namespace mcnb::bench
