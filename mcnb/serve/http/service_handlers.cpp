#include <utility>

#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/json_writer.h"
#include "mcnb/serve/http/metrics_text.h"
#include "mcnb/serve/http/openapi.h"

namespace mcnb {
namespace {

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
                   std::string personalizer_model)
    : engine_(engine),
      metrics_(metrics),
      requests_(requests),
      personalizer_model_(std::move(personalizer_model)) {}

Reply Handlers::submit(Task task, std::function<std::string()> body) const {
  const auto start = [&engine = engine_, task](std::function<void()> done) {
    base_of(task).done = std::move(done);
    if (engine.submit(task)) {
      return true;
    }
    base_of(task).error = ServiceError{ErrorCode::kOverloaded, "too many requests wait"};
    return false;
  };
  const auto finish = [task, body = std::move(body)] {
    if (const std::optional<ServiceError>& error = base_of(task).error) {
      throw RequestRefused(*error);
    }
    return body();
  };
  return {start, finish};
}

Reply Handlers::on_engine(std::function<std::string(const EngineThread& engine)> work) const {
  auto task = std::make_shared<ControlTask>();
  auto body = std::make_shared<std::string>();
  task->work = [own = task.get(), body, work = std::move(work)](ModelHost& host, Storage& storage,
                                                                std::int64_t time) {
    *body = work({*own, host, storage, time});
  };
  return submit(std::move(task), [body] { return std::move(*body); });
}

Reply Handlers::live(const Call&) const { return at_once(object_with("status", "alive")); }

Reply Handlers::ready(const Call&) const {
  if (!engine_.ready()) {
    refuse_request(ErrorCode::kStorageFailed, "the disk cannot be written");
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

Reply Handlers::openapi(const Call&) const { return at_once(openapi_document()); }

Reply Handlers::metrics(const Call&) const {
  return at_once(metrics_text(requests_, metrics_, engine_));
}

Reply Handlers::back_up(const Call& call) const {
  return on_engine([name = read_backup_name(call.body)](const EngineThread& engine) {
    if (engine.storage.has_backup(name)) {
      refuse_request(ErrorCode::kBackupExists, "there is a backup of this name", "name");
    }
    engine.task.follow_up = [name](Storage& storage) { storage.back_up(name); };
    return object_with("backup", "backups/" + name);
  });
}

}  // namespace mcnb
