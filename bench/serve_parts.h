#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/display.h"
#include "bench/load_client.h"
#include "bench/serve.h"
#include "mcnb/base/text_table.h"
#include "mcnb/serve/server.h"

// What the parts of `mcnb bench serve` share.
namespace mcnb::bench {

// A folder for the data of a service, which is removed at the end.
class Folder {
 public:
  explicit Folder(const std::string& output) : path_(std::filesystem::path(output) / "serve-data") {
    std::filesystem::remove_all(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The actions of request `number`, as the members of a JSON array.
std::string actions_text(std::uint64_t features, std::uint64_t number, std::uint64_t actions);

// M-CNB with more options, such as "meta_steps=1".
std::string mcnb_policy(const ServeBenchOptions& options, const std::string& more);
ModelOptions model_options(const ServeBenchOptions& options, std::uint64_t groups,
                           const std::string& policy);
// With the policy that the command line asks for.
ModelOptions mcnb_options(const ServeBenchOptions& options, std::uint64_t groups);

// One model, "bench".
ServerOptions server_options(const ServeBenchOptions& options, const std::filesystem::path& folder,
                             const ModelOptions& model);

// Makes the requests of the model: decisions for so many users in turn, or decisions and rewards in
// turn. Every request has its own event id.
class Client {
 public:
  Client(const ServeBenchOptions& options, std::uint64_t users, std::uint64_t actions);

  Exchange rank();
  Exchange in_turn(const std::string& last);

 private:
  std::uint64_t users_;
  std::uint64_t next_ = 0;
  std::vector<std::string> bodies_;
};

// A POST with a JSON body.
std::string post(const std::string& path, const std::string& body);
LoadResult ranks(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                 Client& client);
LoadResult both(std::uint16_t port, const ServeBenchOptions& options, std::size_t connections,
                Client& client, std::uint64_t requests = 0);
double rate(const LoadResult& load);

// Collects the rows of the table and prints each one as soon as it is known.
class Report {
 public:
  // The display is borrowed.
  explicit Report(Display& display) : display_(display) {}

  void add(const std::string& what, double per_second, const LoadResult& load,
           const std::string& note);
  const TextTable& table() const { return table_; }

 private:
  Display& display_;
  // "processor" is the CPU time of all threads, including the client's, per decision.
  TextTable table_{{"what", "per second", "p50", "p99", "p99.9", "processor", "note"}};
};

}  // namespace mcnb::bench
