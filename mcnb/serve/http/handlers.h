#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/serve/engine/engine.h"
#include "mcnb/serve/http/http_message.h"
#include "mcnb/serve/http/log_stream.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/http/request_metrics.h"
#include "mcnb/serve/http/seats.h"
#include "mcnb/serve/http/uploads.h"
#include "mcnb/serve/nodes.h"

namespace mcnb {

// A request to one endpoint.
struct Call {
  std::string model;  // {model} of the path; empty if the path has none
  std::string id;     // {id} of the path: event, user or challenger; empty if it has none
  std::map<std::string, std::string> query;  // the parameters behind the path
  std::string client;                        // who asks (TaskBase::client)
  std::string assigned_id;                   // for an event or a reward without one; may be empty
  std::string_view body;                     // valid only while the handler runs
};

// What a handler returns: how to obtain the body of the successful response. `start` is as in
// HttpPlan; `body` throws RequestRefused if the request failed.
struct Reply {
  std::function<bool(std::function<void()> done)> start;
  std::function<std::string()> body;
  // If set, it is called after `body` for a response whose body goes on as long as anybody reads.
  std::function<BodyStream()> stream = {};
  const char* content_type = nullptr;  // in place of the endpoint's
};

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
  // The processes that serve, at least this one.
  using ListNodes = std::function<std::vector<Node>()>;

  // Borrows the engine and the metrics. `personalizer_model` is behind the Personalizer paths.
  // `store` is where the log can be read beside the engine (read_store_log).
  Handlers(Engine& engine, const Metrics& metrics, const RequestMetrics& requests,
           std::string personalizer_model, std::string store, Reload reload, ListNodes list_nodes);

  // The service itself (service_handlers.cpp).
  Reply live(const Call& call) const;
  Reply ready(const Call& call) const;
  Reply openapi(const Call& call) const;
  Reply metrics(const Call& call) const;
  Reply back_up(const Call& call) const;
  Reply reload(const Call& call) const;
  Reply nodes(const Call& call) const;

  // Decisions (decision_handlers.cpp).
  Reply rank(const Call& call) const;
  Reply reward(const Call& call) const;
  Reply activate(const Call& call) const;
  Reply personalizer_rank(const Call& call) const;
  Reply personalizer_reward(const Call& call) const;
  Reply personalizer_activate(const Call& call) const;
  Reply personalizer_rank_slots(const Call& call) const;
  Reply personalizer_reward_slots(const Call& call) const;

  // The dashboard and what it shows (dashboard_handlers.cpp).
  Reply page(const Call& call) const;
  Reply page_script(const Call& call) const;
  Reply page_style(const Call& call) const;
  Reply docs(const Call& call) const;
  Reply docs_script(const Call& call) const;
  Reply series(const Call& call) const;
  Reply live_series(const Call& call) const;
  Reply model_series(const Call& call) const;
  Reply user_map(const Call& call) const;
  Reply user_estimates(const Call& call) const;
  Reply try_rank(const Call& call) const;
  Reply latest_events_of(const Call& call) const;  // of a user, or without an id of everybody
  Reply settings_history(const Call& call) const;
  Reply look_behind_event(const Call& call) const;

  // Models, and what they know (model_handlers.cpp).
  Reply list_models(const Call& call) const;
  Reply create_model(const Call& call) const;
  Reply upload(const Call& call) const;
  Reply remove_upload(const Call& call) const;
  Reply show_model(const Call& call) const;
  Reply change_model(const Call& call) const;
  Reply delete_model(const Call& call) const;
  Reply snapshot_model(const Call& call) const;
  Reply show_event(const Call& call) const;
  Reply show_user(const Call& call) const;
  Reply forget_user(const Call& call) const;

  // The log of a model (log_handlers.cpp).
  Reply show_log(const Call& call) const;

  // Challengers (challenger_handlers.cpp).
  Reply add_challenger(const Call& call) const;
  Reply remove_challenger(const Call& call) const;
  Reply promote(const Call& call) const;

 private:
  // What `on_engine` lends to its work.
  struct EngineThread {
    ControlTask& task;
    ModelHost& host;
    Storage& storage;
    std::int64_t time;
  };

  // Whether another node serves the models.
  bool follows() const;
  // Gives the engine a task of the caller; `body` is called once the task has succeeded.
  Reply submit(const Call& call, Task task, std::function<std::string()> body) const;
  // Gives the engine several tasks; the response has no body.
  Reply submit_all(const Call& call, std::vector<Task> tasks) const;
  // Runs `work` on the thread that owns the models; its result is the body of the response.
  enum class Use { kRead, kChange };  // of the models
  Reply on_engine(const Call& call, Use use,
                  std::function<std::string(const EngineThread& engine)> work) const;
  // Shows the model of the call after a change.
  Reply show_after(const Call& call, Use use,
                   std::function<void(const EngineThread& engine)> change) const;
  Reply rank(const std::string& model, const Call& call, Dialect dialect) const;
  Reply reward(const std::string& model, const Call& call, Dialect dialect) const;
  Reply activate(const std::string& model, const Call& call) const;

  Engine& engine_;
  const Metrics& metrics_;
  const RequestMetrics& requests_;
  std::string personalizer_model_;
  std::string store_;
  Reload reload_;
  ListNodes list_nodes_;
  Seats live_streams_;
  Seats maps_;
  std::shared_ptr<LogReaders> log_readers_ = std::make_shared<LogReaders>();
  std::shared_ptr<Uploads> uploads_ = std::make_shared<Uploads>();
};

}  // namespace mcnb
