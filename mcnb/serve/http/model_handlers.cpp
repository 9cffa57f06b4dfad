#include <fmt/core.h>

#include "mcnb/base/json_writer.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/response_json.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kRewardRows = 20'000;  // in which the rewards of an event are looked for

}  // namespace

Reply Handlers::list_models(const Call& call) const {
  return on_engine(call, Use::kRead,
                   [](const EngineThread& engine) { return write_models(engine.host.reports()); });
}

Reply Handlers::create_model(const Call& call) const {
  ModelRequest wanted = read_model(call.body);
  auto task = std::make_shared<CreateTask>();
  task->model = std::move(wanted.name);
  task->options = std::move(wanted.options);
  if (!wanted.from.empty()) {
    task->source.emplace();
    task->source->given = std::move(wanted.given);
    if (!Uploads::is_name(wanted.from)) {
      task->source->model = std::move(wanted.from);
    } else if (const std::optional<StartFile> file = uploads_->find(wanted.from)) {
      task->source->file = *file;
    } else {
      refuse_request(ErrorCode::kUnknownUpload,
                     fmt::format("there is no upload \"{}\"; uploads last an hour", wanted.from),
                     "from");
    }
  }
  return submit(call, task, [task] { return write_model(task->report); });
}

Reply Handlers::upload(const Call& call) const {
  const std::string name = uploads_->add(call.body);
  JsonWriter out;
  out.begin_object().field("upload", name).field("bytes", call.body.size()).end_object();
  return {{}, [body = out.take()] { return body; }};
}

Reply Handlers::remove_upload(const Call& call) const {
  if (!uploads_->remove(call.id)) {
    refuse_request(ErrorCode::kUnknownUpload, fmt::format("there is no upload \"{}\"", call.id),
                   "id");
  }
  return {{}, [] { return std::string(); }};
}

// Writes the report away from the engine, because intervals take their time.
Reply Handlers::show_after(const Call& call, Use use,
                           std::function<void(const EngineThread& engine)> change) const {
  auto report = std::make_shared<ModelReport>();
  Reply reply = on_engine(
      call, use,
      [report, model = call.model, change = std::move(change)](const EngineThread& engine) {
        change(engine);
        *report = engine.host.report(model);
        return std::string();
      });
  reply.body = [report, check = std::move(reply.body)] {
    check();
    return write_model(*report);
  };
  return reply;
}

Reply Handlers::show_model(const Call& call) const {
  return show_after(call, Use::kRead, [](const EngineThread&) {});
}

Reply Handlers::change_model(const Call& call) const {
  return show_after(
      call, Use::kChange,
      [model = call.model, settings = read_settings(call.body)](const EngineThread& engine) {
        engine.host.change(model, settings, engine.time);
      });
}

Reply Handlers::delete_model(const Call& call) const {
  return on_engine(call, Use::kChange, [model = call.model](const EngineThread& engine) {
    const std::uint32_t id = engine.host.report(model).id;
    engine.host.remove(model);
    engine.task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
    return std::string();
  });
}

Reply Handlers::snapshot_model(const Call& call) const {
  return on_engine(call, Use::kChange, [model = call.model](const EngineThread& engine) {
    engine.task.snapshots.push_back(engine.host.snapshot(model));
    const SnapshotJob& snapshot = engine.task.snapshots.back();
    JsonWriter out;
    out.begin_object().field("model", model).field("position", snapshot.position);
    if (const std::optional<std::size_t> size = snapshot.state->size()) {
      out.field("bytes", *size);
    }
    out.end_object();
    return out.take();
  });
}

Reply Handlers::show_event(const Call& call) const {
  auto task = std::make_shared<ControlTask>();
  task->model = call.model;
  task->only_reads = true;
  auto found = std::make_shared<std::vector<ModelHost::FoundDecision>>();
  auto events = std::make_shared<std::vector<FoundEvent>>();
  task->work = [own = task.get(), found, events, model = call.model, id = call.id](
                   ModelHost& host, Storage&, std::int64_t) {
    *found = host.look_up_slots(model, id);
    const LogView view = host.log_view(model, found->front().decision.user_id);
    // What followed is read by the housekeeping, which keeps nobody waiting.
    own->look_up = [view, found, events](Storage& storage) {
      for (const ModelHost::FoundDecision& one : *found) {
        events->push_back({one.decision, {}, false});
      }
      follow_events(storage.log(), view, found->front().position, kRewardRows, *events);
    };
  };
  return submit(call, task, [found, events] { return write_event(*events, *found); });
}

Reply Handlers::show_user(const Call& call) const {
  return on_engine(call, Use::kRead,
                   [model = call.model, id = call.id](const EngineThread& engine) {
                     const UserReport report = engine.host.user(model, id);
                     if (!report.known) {
                       refuse_request(ErrorCode::kUnknownUser,
                                      fmt::format("there is no user \"{}\"", id), "userId");
                     }
                     return write_user(id, report);
                   });
}

Reply Handlers::forget_user(const Call& call) const {
  return on_engine(
      call, Use::kChange, [model = call.model, id = call.id](const EngineThread& engine) {
        engine.task.follow_up = [erasures =
                                     engine.host.forget(model, id, engine.time)](Storage& storage) {
          for (const Erasure& erasure : erasures) {
            storage.erase_user(erasure);
          }
        };
        return std::string();
      });
}

}  // namespace mcnb
