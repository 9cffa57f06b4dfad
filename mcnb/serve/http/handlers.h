#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/body_stream.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/http/request_metrics.h"

namespace mcnb {

// A request to one endpoint.
struct Call {
  std::string model;      // {model} of the path; empty if the path has none
  std::string id;         // {id} of the path: an event or a user; empty if the path has none
  std::string query;      // of the path, without its question mark
  std::string client;     // who asks (TaskBase::client)
  std::string_view body;  // valid only while the handler runs
};

// What a handler returns: how to obtain the body of the successful response. `start` is as in
// HttpPlan; `body` throws RequestRefused if the request failed.
struct Reply {
  std::function<bool(std::function<void()> done)> start;
  std::function<std::string()> body;
  // Makes the body of a successful response instead; `body` is called nevertheless.
  std::shared_ptr<BodyStream> stream = {};
  const char* content_type = nullptr;  // instead of the endpoint's
};

struct LogStreamLimit;

// The handlers of all endpoints, one function each. A handler reads the call, gives the engine a
// task if it needs the models, and writes JSON. It throws RequestRefused if the call is wrong. It
// runs on the thread of the HTTP server and must not block. Statuses, keys and paths are in the
// table of routes.cpp.
class Handlers {
 public:
  // Reads the keys and the certificate of the service again and returns what it uses now. Throws
  // Error if they cannot be used; everything then stays as it was.
  struct Reloaded {
    std::size_t keys = 0;
    bool tls = false;
  };
  using Reload = std::function<Reloaded()>;

  // Borrows the engine and the metrics. `folder` has the data of the engine; `personalizer_model`
  // is behind the Personalizer paths.
  Handlers(Engine& engine, const Metrics& metrics, const RequestMetrics& requests,
           std::filesystem::path folder, std::string personalizer_model, Reload reload);

  // The service itself (service_handlers.cpp).
  Reply live(const Call& call) const;
  Reply ready(const Call& call) const;
  Reply openapi(const Call& call) const;
  Reply metrics(const Call& call) const;
  Reply back_up(const Call& call) const;
  Reply reload(const Call& call) const;

  // Decisions (decision_handlers.cpp).
  Reply rank(const Call& call) const;
  Reply reward(const Call& call) const;
  Reply activate(const Call& call) const;
  Reply personalizer_rank(const Call& call) const;
  Reply personalizer_reward(const Call& call) const;
  Reply personalizer_activate(const Call& call) const;

  // Models, and what they know (model_handlers.cpp).
  Reply list_models(const Call& call) const;
  Reply create_model(const Call& call) const;
  Reply show_model(const Call& call) const;
  Reply change_model(const Call& call) const;
  Reply delete_model(const Call& call) const;
  Reply snapshot_model(const Call& call) const;
  Reply show_event(const Call& call) const;
  Reply show_user(const Call& call) const;
  Reply forget_user(const Call& call) const;

  // Logs (log_handlers.cpp).
  Reply show_log(const Call& call) const;

 private:
  // What `on_engine` lends to its work.
  struct EngineThread {
    ControlTask& task;
    ModelHost& host;
    Storage& storage;
    std::int64_t time;
  };

  // Gives the engine a task of the caller; `body` is called once the task has succeeded.
  Reply submit(const Call& call, Task task, std::function<std::string()> body) const;
  // Runs `work` on the thread that owns the models; its result is the body of the response.
  enum class Use { kRead, kChange };  // of the models
  Reply on_engine(const Call& call, Use use,
                  std::function<std::string(const EngineThread& engine)> work) const;
  Reply rank(const std::string& model, const Call& call, Dialect dialect) const;
  Reply reward(const std::string& model, const Call& call, Dialect dialect) const;
  Reply activate(const std::string& model, const Call& call) const;

  Engine& engine_;
  const Metrics& metrics_;
  const RequestMetrics& requests_;
  std::filesystem::path folder_;
  std::shared_ptr<LogStreamLimit> log_streams_;
  std::string personalizer_model_;
  Reload reload_;
};

}  // namespace mcnb
