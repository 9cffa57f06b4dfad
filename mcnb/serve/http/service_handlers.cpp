#include <algorithm>
#include <atomic>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/json_writer.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/metrics_text.h"
#include "mcnb/serve/http/openapi.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostStreams = 64;
constexpr std::size_t kMostStreamsOfClient = 8;
// A map of many users takes some 10 MB while it is made.
constexpr std::size_t kMostMaps = 16;
constexpr std::size_t kMostMapsOfClient = 4;

Reply at_once(std::string body) {
  return {{}, [body = std::move(body)] { return body; }};
}

std::string object_with(std::string_view name, std::string_view value) {
  JsonWriter out;
  out.begin_object().field(name, value).end_object();
  return out.take();
}

}  // namespace

Handlers::Handlers(Engine& engine, const Metrics& metrics, const RequestMetrics& requests,
                   std::string personalizer_model, std::string store, Reload reload,
                   ListNodes list_nodes)
    : engine_(engine),
      metrics_(metrics),
      requests_(requests),
      personalizer_model_(std::move(personalizer_model)),
      store_(std::move(store)),
      reload_(std::move(reload)),
      list_nodes_(std::move(list_nodes)),
      live_streams_(kMostStreams, kMostStreamsOfClient),
      maps_(kMostMaps, kMostMapsOfClient) {}

Reply Handlers::submit(const Call& call, Task task, std::function<std::string()> body) const {
  base_of(task).client = call.client;
  const auto start = [&engine = engine_, task](std::function<void()> done) {
    base_of(task).done = std::move(done);
    const bool taken = engine.submit(task);
    if (!taken) {
      base_of(task).done = {};
    }
    return taken;
  };
  const auto finish = [task, body = std::move(body)] {
    if (const std::optional<ServiceError>& error = base_of(task).error) {
      throw RequestRefused(*error);
    }
    return body();
  };
  return {start, finish};
}

Reply Handlers::submit_all(const Call& call, std::vector<Task> tasks) const {
  for (const Task& task : tasks) {
    base_of(task).client = call.client;
  }
  const auto start = [&engine = engine_, tasks](std::function<void()> done) {
    const auto left = std::make_shared<std::atomic<std::size_t>>(tasks.size());
    const auto one_done = [left, done = std::move(done)] {
      if (left->fetch_sub(1) == 1) {
        done();
      }
    };
    for (const Task& task : tasks) {
      base_of(task).done = one_done;
    }
    for (const Task& task : tasks) {
      if (!engine.submit(task)) {
        one_done();  // its error says why
      }
    }
    return true;
  };
  const auto finish = [tasks] {
    for (const Task& task : tasks) {
      if (const std::optional<ServiceError>& error = base_of(task).error) {
        throw RequestRefused(*error);
      }
    }
    return std::string();
  };
  return {start, finish};
}

Reply Handlers::on_engine(const Call& call, Use use,
                          std::function<std::string(const EngineThread& engine)> work) const {
  auto task = std::make_shared<ControlTask>();
  task->model = call.model;
  task->only_reads = use == Use::kRead;
  auto body = std::make_shared<std::string>();
  task->work = [own = task.get(), body, work = std::move(work)](ModelHost& host, Storage& storage,
                                                                std::int64_t time) {
    *body = work({*own, host, storage, time});
  };
  return submit(call, std::move(task), [body] { return std::move(*body); });
}

Reply Handlers::live(const Call&) const { return at_once(object_with("status", "alive")); }

bool Handlers::follows() const {
  return !engine_.ready() && std::ranges::any_of(list_nodes_(), &Node::owner);
}

Reply Handlers::ready(const Call&) const {
  if (follows()) {
    return at_once(object_with("status", "following"));  // another node does what comes here
  }
  if (!engine_.ready()) {
    const std::string why = engine_.why_not_ready();
    refuse_request(ErrorCode::kStorageFailed,
                   "the disk cannot be written or read" + (why.empty() ? "" : ": " + why));
  }
  JsonWriter out;
  out.begin_object().field("status", "ready");
  if (const std::vector<Damage> damage = engine_.damage(); !damage.empty()) {
    out.key("damage").begin_array();
    for (const Damage& one : damage) {
      out.begin_object()
          .field("model", one.model)
          .field("first", one.first)
          .field("last", one.last)
          .field("what", one.what)
          .end_object();
    }
    out.end_array();
  }
  return at_once(out.end_object().take());
}

Reply Handlers::nodes(const Call&) const {
  JsonWriter out;
  out.begin_object().key("nodes").begin_array();
  for (const Node& node : list_nodes_()) {
    out.begin_object()
        .field("name", node.name)
        .field("address", node.address)
        .field("owner", node.owner)
        .field("silentSeconds", static_cast<double>(node.silent_milliseconds) / 1000.0)
        .end_object();
  }
  return at_once(out.end_array().end_object().take());
}

Reply Handlers::openapi(const Call&) const { return at_once(openapi_document()); }

Reply Handlers::metrics(const Call&) const {
  return at_once(metrics_text(requests_, metrics_, engine_));
}

Reply Handlers::back_up(const Call& call) const {
  return on_engine(
      call, Use::kRead, [name = read_backup_name(call.body)](const EngineThread& engine) {
        const auto refuse = [] {
          refuse_request(ErrorCode::kBackupExists, "there is a backup of this name", "name");
        };
        if (engine.storage.has_backup(name)) {
          refuse();
        }
        engine.task.follow_up = [name, refuse](Storage& storage) {
          if (!storage.back_up(name)) {
            refuse();  // of two requests at once, the second
          }
        };
        return object_with("backup", "backups/" + name);
      });
}

Reply Handlers::reload(const Call& call) const {
  read_nothing(call.body);
  return {{}, [reload = reload_] {
            try {
              const Reloaded now = reload();
              JsonWriter out;
              out.begin_object().field("keys", now.keys).field("tls", now.tls).end_object();
              return out.take();
            } catch (const Error& error) {
              refuse_request(ErrorCode::kBadConfiguration,
                             std::string("everything stays as it was: ") + error.what());
            }
          }};
}

}  // namespace mcnb
