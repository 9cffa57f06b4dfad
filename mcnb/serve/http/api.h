#pragma once

#include <string>
#include <vector>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/http/http_server.h"
#include "mcnb/serve/http/protocol.h"

namespace mcnb {

// What a path and a method ask for.
enum class Operation : std::uint8_t {
  kLive,
  kReady,
  kMetrics,
  kOpenApi,
  kListModels,
  kCreateModel,
  kShowModel,
  kChangeModel,
  kDeleteModel,
  kSnapshotModel,
  kRank,
  kReward,
  kActivate,
  kShowEvent,
  kShowUser,
  kForgetUser,
  kBackup,
};

struct Target {
  Operation operation{};
  Right right = Right::kNone;
  Dialect dialect = Dialect::kOwn;
  std::string model;  // where the path names one
  std::string id;     // of the event or user
};

// Throws RequestRefused: 404 for an unknown path, 405 (its field lists the methods there are) for
// another method, 400 for a path that cannot be read.
Target find_target(const std::string& method, const std::string& path);

// The API: requests in, answers out.
class Api {
 public:
  struct Options {
    std::string personalizer_model = "default";
    std::filesystem::path folder;
  };
  // Borrows the engine and the figures.
  Api(Engine& engine, Metrics& metrics, ApiKeys keys, Options options);

  std::optional<HttpAnswer> admit(const HttpRequest& head) const;
  HttpPlan plan(const HttpRequest& request);

 private:
  HttpPlan plan_for(const Target& target, const HttpRequest& request);
  HttpPlan rank(const Target& target, const HttpRequest& request);
  HttpPlan reward(const Target& target, const HttpRequest& request);
  HttpPlan activate(const Target& target, const HttpRequest& request);
  HttpPlan manage(const Target& target, const HttpRequest& request);
  HttpPlan forget_user(const Target& target);
  HttpPlan back_up(const HttpRequest& request);
  HttpPlan later(Route route, std::shared_ptr<Task> task, std::function<HttpAnswer()> finish);
  HttpPlan control(std::shared_ptr<ControlTask> task, std::function<HttpAnswer()> finish);
  const std::string& model_of(const Target& target) const;

  Engine& engine_;
  Metrics& metrics_;
  ApiKeys keys_;
  Options options_;
};

// The OpenAPI 3 document.
std::string openapi_document();

}  // namespace mcnb
