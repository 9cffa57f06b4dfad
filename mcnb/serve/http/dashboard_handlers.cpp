// The dashboard, and the endpoints behind its figures.

#include <fmt/core.h>

#include <charconv>
#include <chrono>

#include "mcnb/serve/engine/user_estimates.h"
#include "mcnb/serve/engine/user_map.h"
#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/page.h"
#include "mcnb/serve/http/response_json.h"
#include "mcnb/serve/http/series_json.h"

namespace mcnb {
namespace {

constexpr std::chrono::seconds kLine(1);     // between two lines of a stream
constexpr std::uint64_t kMostRows = 20'000;  // of the log that are looked at for one answer
constexpr std::size_t kMostUserEvents = 50;  // in one answer

Reply at_once(std::string_view text) {
  return {{}, [text] { return std::string(text); }};
}

std::int64_t now_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const Resolution& resolution_of(const Call& call) {
  const auto given = call.query.find("resolution");
  const std::string name = given == call.query.end() ? "5m" : given->second;
  std::string names;
  for (const Resolution& resolution : kResolutions) {
    if (name == resolution.name) {
      return resolution;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", resolution.name);
  }
  refuse_request(ErrorCode::kBadField, fmt::format("expected one of {}, got \"{}\"", names, name),
                 "resolution");
}

std::int64_t since_of(const Call& call) {
  const auto given = call.query.find("since");
  std::int64_t since = 0;
  if (given != call.query.end()) {
    const std::string& text = given->second;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), since);
    if (problem != std::errc() || end != text.data() + text.size() || since < 0) {
      refuse_request(ErrorCode::kBadField, "expected milliseconds since 1970", "since");
    }
  }
  return since;
}

ModelReport report_of(const Engine& engine, const std::string& model) {
  for (ModelReport& report : engine.reports()) {
    if (report.name == model) {
      return std::move(report);
    }
  }
  refuse_request(ErrorCode::kUnknownModel, fmt::format("there is no model \"{}\"", model), "model");
}

}  // namespace

Reply Handlers::page(const Call&) const { return at_once(page_html()); }

Reply Handlers::page_script(const Call&) const { return at_once(mcnb::page_script()); }

Reply Handlers::page_style(const Call&) const { return at_once(mcnb::page_style()); }

Reply Handlers::docs(const Call&) const { return at_once(page_docs()); }

Reply Handlers::docs_script(const Call&) const { return at_once(page_docs_script()); }

Reply Handlers::series(const Call& call) const {
  return {{}, [this, &resolution = resolution_of(call), since = since_of(call)] {
            return write_all_series(engine_.reports(), engine_.series(), resolution, since,
                                    now_milliseconds(), engine_.memory_limit());
          }};
}

Reply Handlers::model_series(const Call& call) const {
  return {{},
          [this, &resolution = resolution_of(call), since = since_of(call),
           report = report_of(engine_, call.model)] {
            return write_model_series(report, engine_.series(), resolution, since,
                                      now_milliseconds());
          }};
}

Reply Handlers::live_series(const Call& call) const {
  if (follows()) {
    refuse_request(ErrorCode::kNotOwner, "another node serves the models: ask for /v1/series");
  }
  const std::shared_ptr<const void> seat = live_streams_.take(call.client);
  if (!seat) {
    refuse_request(ErrorCode::kOverloaded, "too many streams are open");
  }
  Reply reply{{}, [] { return std::string(); }};
  reply.stream = [this, seat] {
    return
        [this, seat, ready = engine_.ready(),
         next = std::chrono::steady_clock::time_point()]() mutable -> std::optional<std::string> {
          if (engine_.ready() != ready) {
            return std::nullopt;  // another node may serve the models now, or this one
          }
          const auto now = std::chrono::steady_clock::now();
          if (now < next) {
            return "";
          }
          next = now + kLine;
          const std::int64_t time = now_milliseconds();
          const Resolution& finest = kResolutions.front();
          // The bucket of now and the one before it, which may have grown since the last line.
          return write_all_series(engine_.reports(), engine_.series(), finest,
                                  time - time % finest.milliseconds - finest.milliseconds, time,
                                  engine_.memory_limit()) +
                 "\n";
        };
  };
  return reply;
}

Reply Handlers::settings_history(const Call& call) const {
  return {{}, [this, report = report_of(engine_, call.model)] {
            return write_settings_history(report, engine_.series().settings(report.id));
          }};
}

Reply Handlers::try_rank(const Call& call) const {
  const std::optional<ModelOptions> options = engine_.options_of(call.model);
  if (!options) {
    refuse_request(ErrorCode::kUnknownModel, fmt::format("there is no model \"{}\"", call.model),
                   "model");
  }
  auto request = std::make_shared<RankRequest>(read_rank(call.body, *options, Dialect::kOwn));
  auto task = std::make_shared<ControlTask>();
  task->model = call.model;
  task->only_reads = true;
  task->actions = request->actions.size();
  task->held_bytes = call.body.size() + request->features.size() * sizeof(float);
  auto decision = std::make_shared<Decision>();
  task->work = [decision, request, model = call.model](ModelHost& host, Storage&,
                                                       std::int64_t time) {
    *decision = host.try_decision(model, *request, time);
  };
  return submit(call, task, [decision] { return write_rank(*decision, true, Dialect::kOwn); });
}

Reply Handlers::user_map(const Call& call) const {
  const std::shared_ptr<const void> seat = maps_.take(call.client);
  if (!seat) {
    refuse_request(ErrorCode::kOverloaded, "too many maps are being made");
  }
  auto job = std::make_shared<UserMapJob>(engine_, call.model, call.client, write_user_map);
  // The job goes on if its client leaves, and keeps its seat until it is done.
  const auto start = [job, seat](std::function<void()> done) {
    return job->start([seat, done = std::move(done)] { done(); });
  };
  return {start, [job] { return job->text(); }};
}

Reply Handlers::user_estimates(const Call& call) const {
  const auto write = [id = call.id](const Decision* decision) {
    return write_user_estimates(id, decision);
  };
  auto job =
      std::make_shared<UserEstimatesJob>(engine_, call.model, call.client, call.id, write);
  return {[job](std::function<void()> done) { return job->start(std::move(done)); },
          [job] { return job->text(); }};
}

// The rows are read by the housekeeping, which keeps nobody waiting.
Reply Handlers::latest_events_of(const Call& call) const {
  auto task = std::make_shared<ControlTask>();
  task->model = call.model;
  task->only_reads = true;
  auto events = std::make_shared<std::vector<FoundEvent>>();
  task->work = [own = task.get(), events, model = call.model, id = call.id](
                   ModelHost& host, Storage&, std::int64_t) {
    const LogView view = host.log_view(model, id);
    own->look_up = [view, events](Storage& storage) {
      *events = latest_events(storage.log(), view, kMostUserEvents, kMostRows);
    };
  };
  return submit(call, task, [events] { return write_events(*events); });
}

// The learners are asked on the engine; names are looked for by the housekeeping.
Reply Handlers::look_behind_event(const Call& call) const {
  auto task = std::make_shared<ControlTask>();
  task->model = call.model;
  task->only_reads = true;
  task->seconds = ModelHost::kLookSeconds;
  task->actions = ModelHost::kFewestSamples;
  auto behind = std::make_shared<ModelHost::Behind>();
  auto names = std::make_shared<LookNames>();
  task->work = [own = task.get(), behind, names, model = call.model, id = call.id](
                   ModelHost& host, Storage&, std::int64_t) {
    *behind = host.look_behind(model, host.look_up(model, id).decision);
    own->look_up = [behind, names](Storage& storage) {
      *names = names_of_look(storage.log(), behind->view, behind->members, behind->look.samples,
                             kMostRows);
    };
  };
  return submit(call, task, [behind, names] { return write_look(*behind, *names); });
}

}  // namespace mcnb
