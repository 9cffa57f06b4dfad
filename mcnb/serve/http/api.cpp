#include "mcnb/serve/http/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"
#include "mcnb/serve/http/json_writer.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

struct RouteRow {
  const char* method;
  const char* pattern;  // {model} and {id} stand for one part of the path
  Operation operation;
  Right right;
  Dialect dialect = Dialect::kOwn;
};

constexpr auto kTheirs = Dialect::kPersonalizer;
constexpr RouteRow kTable[] = {
    {"GET", "/livez", Operation::kLive, Right::kNone},
    {"GET", "/readyz", Operation::kReady, Right::kNone},
    {"GET", "/openapi.json", Operation::kOpenApi, Right::kNone},
    {"GET", "/metrics", Operation::kMetrics, Right::kRead},
    {"GET", "/v1/models", Operation::kListModels, Right::kRead},
    {"POST", "/v1/models", Operation::kCreateModel, Right::kAdmin},
    {"GET", "/v1/models/{model}", Operation::kShowModel, Right::kRead},
    {"PATCH", "/v1/models/{model}", Operation::kChangeModel, Right::kAdmin},
    {"DELETE", "/v1/models/{model}", Operation::kDeleteModel, Right::kAdmin},
    {"POST", "/v1/models/{model}/snapshot", Operation::kSnapshotModel, Right::kAdmin},
    {"POST", "/v1/models/{model}/rank", Operation::kRank, Right::kDecide},
    {"POST", "/v1/models/{model}/events/{id}/reward", Operation::kReward, Right::kDecide},
    {"POST", "/v1/models/{model}/events/{id}/activate", Operation::kActivate, Right::kDecide},
    {"GET", "/v1/models/{model}/events/{id}", Operation::kShowEvent, Right::kRead},
    {"GET", "/v1/models/{model}/users/{id}", Operation::kShowUser, Right::kRead},
    {"DELETE", "/v1/models/{model}/users/{id}", Operation::kForgetUser, Right::kAdmin},
    {"POST", "/v1/backup", Operation::kBackup, Right::kAdmin},
    {"POST", "/personalizer/v1.0/rank", Operation::kRank, Right::kDecide, kTheirs},
    {"POST", "/personalizer/v1.0/events/{id}/reward", Operation::kReward, Right::kDecide, kTheirs},
    {"POST", "/personalizer/v1.0/events/{id}/activate", Operation::kActivate, Right::kDecide,
     kTheirs},
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// One part of a path, without its escapes.
std::string unescape(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      text += part[i];
      continue;
    }
    const int high = i + 2 < part.size() ? hex_digit(part[i + 1]) : -1;
    const int low = i + 2 < part.size() ? hex_digit(part[i + 2]) : -1;
    if (high < 0 || low < 0) {
      refuse_request(400, "bad_path", "expected two hexadecimal digits after % in the path");
    }
    text += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return text;
}

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/', 1), path.size());
    parts.push_back(path.substr(1, slash - 1));
    path.remove_prefix(slash);
  }
  return parts;
}

bool matches(const RouteRow& row, const std::vector<std::string_view>& parts, Target& target) {
  const std::vector<std::string_view> pattern = split(row.pattern);
  if (pattern.size() != parts.size()) {
    return false;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (pattern[i] != "{model}" && pattern[i] != "{id}" && pattern[i] != parts[i]) {
      return false;
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (pattern[i] == "{model}") {
      target.model = unescape(parts[i]);
    } else if (pattern[i] == "{id}") {
      target.id = unescape(parts[i]);
      check_id(target.id, "id");
    }
  }
  return true;
}

HttpAnswer json(std::string body, int status = 200) { return {status, std::move(body)}; }

HttpAnswer refusal(const ServiceError& error) {
  HttpAnswer answer{error.status, write_error(error)};
  answer.retry_after = error.retry_after;
  if (error.status == 405) {
    answer.allow = error.field;
  }
  return answer;
}

HttpPlan at_once(Route route, HttpAnswer answer) {
  return {route, {}, [answer = std::move(answer)] { return answer; }};
}

// Snapshots first, the database after them: it then knows all that they know. Whole or not at all.
void copy_data(const fs::path& from, const fs::path& to, LogStore& store) {
  std::error_code ignored;
  try {
    fs::create_directories(to);
    if (fs::exists(from / "snapshots")) {
      fs::copy(from / "snapshots", to / "snapshots");
    }
    store.copy_to(to / LogStore::kFileName);
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(to, ignored);
    throw Error(ErrorKind::kSystem, fmt::format("{}: {}", to.string(), error.code().message()));
  } catch (const Error&) {
    fs::remove_all(to, ignored);
    throw;
  }
}

std::string status_text(const char* word) {
  JsonWriter out;
  out.begin_object().field("status", word).end_object();
  return out.take();
}

}  // namespace

Target find_target(const std::string& method, const std::string& path) {
  const std::string_view plain = std::string_view(path).substr(0, path.find('?'));
  if (plain.empty() || plain.front() != '/') {
    refuse_request(400, "bad_path", "expected a path that begins with /");
  }
  const std::vector<std::string_view> parts = split(plain);
  std::string methods;
  for (const RouteRow& row : kTable) {
    Target target;
    if (!matches(row, parts, target)) {
      continue;
    }
    if (method == row.method || (method == "HEAD" && std::string_view(row.method) == "GET")) {
      target.operation = row.operation;
      target.right = row.right;
      target.dialect = row.dialect;
      return target;
    }
    methods += (methods.empty() ? "" : ", ") + std::string(row.method);
  }
  if (!methods.empty()) {
    refuse_request(405, "bad_method", fmt::format("expected {}", methods), methods);
  }
  refuse_request(404, "unknown_path", "there is nothing at this path; see /openapi.json");
}

Api::Api(Engine& engine, Metrics& metrics, ApiKeys keys, Options options)
    : engine_(engine), metrics_(metrics), keys_(std::move(keys)), options_(std::move(options)) {}

std::optional<HttpAnswer> Api::admit(const HttpRequest& head) const {
  try {
    const Target target = find_target(head.method, head.path);
    switch (keys_.check(head.key, target.right)) {
      case Access::kGranted:
        return std::nullopt;
      case Access::kNoKey:
        return refusal({401, "no_key", "expected a key in the header X-API-Key", "", 0});
      case Access::kUnknownKey:
        return refusal({401, "unknown_key", "the key is not one of this service", "", 0});
      case Access::kNotAllowed:
        return refusal({403, "not_allowed", "the role of this key does not allow this", "", 0});
    }
  } catch (const RequestRefused& refused) {
    return refusal(refused.error());
  }
  return std::nullopt;
}

HttpPlan Api::plan(const HttpRequest& request) {
  Route route = Route::kOther;
  try {
    const Target target = find_target(request.method, request.path);
    switch (target.operation) {
      case Operation::kRank:
        route = Route::kRank;
        break;
      case Operation::kReward:
        route = Route::kReward;
        break;
      case Operation::kActivate:
        route = Route::kActivate;
        break;
      default:
        route = target.right == Right::kNone ? Route::kOther : Route::kAdmin;
    }
    return plan_for(target, request);
  } catch (const RequestRefused& refused) {
    return at_once(route, refusal(refused.error()));
  } catch (const std::exception& error) {
    log_error("a request failed", {{"path", request.path}, {"detail", error.what()}});
    return at_once(route, refusal({500, "internal", "the request failed", "", 0}));
  }
}

HttpPlan Api::plan_for(const Target& target, const HttpRequest& request) {
  switch (target.operation) {
    case Operation::kLive:
      return at_once(Route::kOther, json(status_text("alive")));
    case Operation::kReady:
      if (!engine_.ready()) {
        return at_once(Route::kOther,
                       refusal({503, "storage_failed", "the disk cannot be written", "", 1}));
      }
      return at_once(Route::kOther, json(status_text("ready")));
    case Operation::kOpenApi:
      return at_once(Route::kOther, json(openapi_document()));
    case Operation::kMetrics:
      return at_once(Route::kOther,
                     {200, metrics_.text(engine_.reports(), engine_.log_bytes(), engine_.ready()),
                      "text/plain; version=0.0.4"});
    case Operation::kRank:
      return rank(target, request);
    case Operation::kReward:
      return reward(target, request);
    case Operation::kActivate:
      return activate(target, request);
    case Operation::kForgetUser:
      return forget_user(target);
    case Operation::kBackup:
      return back_up(request);
    default:
      return manage(target, request);
  }
}

HttpPlan Api::later(Route route, std::shared_ptr<Task> task, std::function<HttpAnswer()> finish) {
  HttpPlan plan;
  plan.route = route;
  plan.start = [this, task](std::function<void()> done) {
    task->done = std::move(done);
    if (engine_.submit(task)) {
      return true;
    }
    task->error = ServiceError{503, "overloaded", "too many requests wait", "", 1};
    return false;
  };
  plan.finish = [task, finish = std::move(finish)] {
    return task->error ? refusal(*task->error) : finish();
  };
  return plan;
}

HttpPlan Api::control(std::shared_ptr<ControlTask> task, std::function<HttpAnswer()> finish) {
  return later(Route::kAdmin, std::move(task), std::move(finish));
}

const std::string& Api::model_of(const Target& target) const {
  return target.dialect == Dialect::kOwn ? target.model : options_.personalizer_model;
}

HttpPlan Api::rank(const Target& target, const HttpRequest& request) {
  auto task = std::make_shared<RankTask>();
  task->model = model_of(target);
  const std::optional<ModelOptions> model = engine_.options_of(task->model);
  if (!model) {
    refuse_request(404, "unknown_model", fmt::format("there is no model \"{}\"", task->model),
                   "model");
  }
  task->request = read_rank(request.body, *model, target.dialect);
  const Dialect dialect = target.dialect;
  return later(Route::kRank, task, [task, dialect] {
    return json(write_rank(task->decision, task->request.explain, dialect),
                dialect == Dialect::kOwn ? 200 : 201);
  });
}

HttpPlan Api::reward(const Target& target, const HttpRequest& request) {
  auto task = std::make_shared<RewardTask>();
  task->model = model_of(target);
  task->reward = read_reward(request.body, target.dialect);
  task->reward.event_id = target.id;
  const Dialect dialect = target.dialect;
  return later(Route::kReward, task, [task, dialect] {
    return dialect == Dialect::kOwn ? json(write_reward(task->outcome)) : HttpAnswer{204, ""};
  });
}

HttpPlan Api::activate(const Target& target, const HttpRequest& request) {
  read_nothing(request.body);
  auto task = std::make_shared<ActivationTask>();
  task->model = model_of(target);
  task->activation.event_id = target.id;
  return later(Route::kActivate, task, [] { return HttpAnswer{204, ""}; });
}

HttpPlan Api::manage(const Target& target, const HttpRequest& request) {
  auto task = std::make_shared<ControlTask>();
  task->model = target.model;
  auto body = std::make_shared<std::string>();  // of the answer
  int status = 200;
  ControlTask* own = task.get();
  switch (target.operation) {
    case Operation::kListModels:
      task->work = [body](ModelHost& host, LogStore&, std::int64_t) {
        *body = write_models(host.reports());
      };
      break;
    case Operation::kShowModel:
      task->work = [body, target](ModelHost& host, LogStore&, std::int64_t) {
        *body = write_model(host.report(target.model));
      };
      break;
    case Operation::kCreateModel:
      status = 201;
      task->work = [body, wanted = read_model(request.body)](ModelHost& host, LogStore&,
                                                             std::int64_t) {
        host.create(wanted.name, wanted.options);
        *body = write_model(host.report(wanted.name));
      };
      break;
    case Operation::kChangeModel:
      task->work = [body, target, settings = read_settings(request.body)](
                       ModelHost& host, LogStore&, std::int64_t time) {
        host.change(target.model, settings, time);
        *body = write_model(host.report(target.model));
      };
      break;
    case Operation::kDeleteModel:
      status = 204;
      task->work = [own, target, folder = options_.folder](ModelHost& host, LogStore&,
                                                           std::int64_t) {
        const std::uint32_t id = host.report(target.model).id;
        host.remove(target.model);
        own->follow_up = [id, folder](LogStore& store) {
          store.erase_model(id);
          Snapshots(folder).remove_all(id);
        };
      };
      break;
    case Operation::kSnapshotModel:
      task->work = [own, body, target](ModelHost& host, LogStore&, std::int64_t) {
        own->snapshots.push_back(host.snapshot(target.model));
        JsonWriter out;
        out.begin_object()
            .field("model", target.model)
            .field("row", own->snapshots.back().place)
            .field("bytes", own->snapshots.back().bytes.size())
            .end_object();
        *body = out.take();
      };
      break;
    case Operation::kShowEvent:
      task->work = [body, target](ModelHost& host, LogStore& store, std::int64_t) {
        bool waiting = false;
        const Decision decision = host.look_up(target.model, target.id, store, &waiting);
        *body = write_event(decision, waiting);
      };
      break;
    case Operation::kShowUser:
      task->work = [body, target](ModelHost& host, LogStore&, std::int64_t) {
        const UserReport report = host.user(target.model, target.id);
        if (!report.known) {
          refuse_request(404, "unknown_user", fmt::format("there is no user \"{}\"", target.id),
                         "userId");
        }
        *body = write_user(target.id, report, !report.own_learner);
      };
      break;
    default:
      refuse_request(404, "unknown_path", "there is nothing at this path");
  }
  return control(std::move(task), [body, status] { return json(std::move(*body), status); });
}

HttpPlan Api::forget_user(const Target& target) {
  auto task = std::make_shared<ControlTask>();
  ControlTask* own = task.get();
  task->work = [own, target](ModelHost& host, LogStore&, std::int64_t time) {
    own->erasures.push_back(host.forget(target.model, target.id, time));
  };
  return control(std::move(task), [] { return HttpAnswer{204, ""}; });
}

HttpPlan Api::back_up(const HttpRequest& request) {
  const OptionValues fields = read_settings(request.body);
  const auto name = fields.find("name");
  for (const auto& [field, text] : fields) {
    if (field != "name") {
      refuse_request(400, "unknown_field",
                     fmt::format("unknown field \"{}\": expected name", field), field);
    }
  }
  if (name == fields.end() || !is_model_name(name->second)) {
    refuse_request(400, "bad_field", "name: expected letters, digits, '.', '_' or '-'", "name");
  }
  const fs::path to = options_.folder / "backups" / name->second;
  auto task = std::make_shared<ControlTask>();
  ControlTask* own = task.get();
  task->work = [own, to, from = options_.folder](ModelHost&, LogStore&, std::int64_t) {
    if (fs::exists(to)) {
      refuse_request(409, "backup_exists", "there is a backup of this name", "name");
    }
    own->follow_up = [to, from](LogStore& store) { copy_data(from, to, store); };
  };
  JsonWriter out;
  out.begin_object().field("backup", "backups/" + name->second).end_object();
  return control(std::move(task), [body = out.take()] { return json(body, 201); });
}

}  // namespace mcnb
