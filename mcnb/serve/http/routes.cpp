#include "mcnb/serve/http/routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "mcnb/serve/http/identifiers.h"
#include "mcnb/serve/http/query.h"

namespace mcnb {
namespace {

using H = Handlers;
constexpr Right kNone = Right::kNone;
constexpr Right kDecide = Right::kDecide;
constexpr Right kRead = Right::kRead;
constexpr Right kAdmin = Right::kAdmin;
constexpr const char* kNoBody = nullptr;
constexpr const char* kPrometheusText = "text/plain; version=0.0.4";

// clang-format off
// Columns: method, path, right, handler, metric label, status of success;
//          summary, schema of the request, schema of the response, content type if it is not JSON.
constexpr Endpoint kEndpoints[] = {
    {"GET", "/livez", kNone, &H::live, "other", 200,
     "Says that the process runs", kNoBody, "Status"},
    {"GET", "/readyz", kNone, &H::ready, "other", 200,
     "Says whether decisions can be served", kNoBody, "Status"},
    {"GET", "/openapi.json", kNone, &H::openapi, "other", 200,
     "This document", kNoBody, "OpenApi"},
    {"GET", "/metrics", kRead, &H::metrics, "other", 200,
     "Metrics for Prometheus", kNoBody, "Metrics", kPrometheusText},
    {"GET", "/v1/models", kRead, &H::list_models, "admin", 200,
     "Lists all models", kNoBody, "Models"},
    {"POST", "/v1/models", kAdmin, &H::create_model, "admin", 201,
     "Creates a model", "NewModel", "Model"},
    {"GET", "/v1/models/{model}", kRead, &H::show_model, "admin", 200,
     "Shows a model", kNoBody, "Model"},
    {"PATCH", "/v1/models/{model}", kAdmin, &H::change_model, "admin", 200,
     "Changes settings of a model", "Settings", "Model"},
    {"DELETE", "/v1/models/{model}", kAdmin, &H::delete_model, "admin", 204,
     "Deletes a model and its log", kNoBody, kNoBody},
    {"POST", "/v1/models/{model}/snapshot", kAdmin, &H::snapshot_model, "admin", 200,
     "Writes a snapshot now", kNoBody, "Snapshot"},
    {"POST", "/v1/models/{model}/rank", kDecide, &H::rank, "rank", 200,
     "Decides which action to show; the decision is on disk when the response is sent",
     "RankRequest", "Decision"},
    {"POST", "/v1/models/{model}/events/{id}/reward", kDecide, &H::reward, "reward", 200,
     "Rewards an event", "Reward", "RewardOutcome"},
    {"POST", "/v1/models/{model}/events/{id}/activate", kDecide, &H::activate, "activate", 204,
     "Says that the action of a deferred event was shown", kNoBody, kNoBody},
    {"GET", "/v1/models/{model}/events/{id}", kRead, &H::show_event, "admin", 200,
     "Shows a decision with its explanation", kNoBody, "Event"},
    {"GET", "/v1/models/{model}/log", kRead, &H::show_log, "admin", 200,
     "The decisions of a model whose waiting time is over, with their rewards (streamed)", kNoBody,
     "Log", "application/x-ndjson"},
    {"GET", "/v1/models/{model}/users/{id}", kRead, &H::show_user, "admin", 200,
     "Shows what a model knows about a user", kNoBody, "User"},
    {"DELETE", "/v1/models/{model}/users/{id}", kAdmin, &H::forget_user, "admin", 204,
     "Makes a model forget a user", kNoBody, kNoBody},
    {"POST", "/v1/backup", kAdmin, &H::back_up, "admin", 201,
     "Copies all data while the service runs", "NewBackup", "Backup"},
    {"POST", "/v1/reload", kAdmin, &H::reload, "admin", 200,
     "Reads the keys and the certificate again", kNoBody, "Reloaded"},
    {"POST", "/personalizer/v1.0/rank", kDecide, &H::personalizer_rank, "rank", 201,
     "Decides, as the retired Personalizer service did", "PersonalizerRankRequest", "Decision"},
    {"POST", "/personalizer/v1.0/events/{id}/reward", kDecide, &H::personalizer_reward, "reward",
     204, "Rewards an event, as the retired Personalizer service did", "PersonalizerReward",
     kNoBody},
    {"POST", "/personalizer/v1.0/events/{id}/activate", kDecide, &H::personalizer_activate,
     "activate", 204, "Activates an event, as the retired Personalizer service did", kNoBody,
     kNoBody},
};
// clang-format on

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/', 1), path.size());
    segments.push_back(path.substr(1, slash - 1));
    path.remove_prefix(slash);
  }
  return segments;
}

bool is_variable(std::string_view segment) { return segment.starts_with('{'); }

bool matches(const std::vector<std::string_view>& pattern,
             const std::vector<std::string_view>& segments) {
  return std::ranges::equal(pattern, segments,
                            [](std::string_view expected, std::string_view given) {
                              return is_variable(expected) || expected == given;
                            });
}

Call call_of(const std::vector<std::string_view>& pattern,
             const std::vector<std::string_view>& segments) {
  Call call;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "{model}") {
      call.model = unescaped(segments[i]);
    } else if (pattern[i] == "{id}") {
      call.id = unescaped(segments[i]);
      check_id(call.id, "id");
    }
  }
  return call;
}

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

Match find_endpoint(const std::string& method, const std::string& path) {
  const std::string_view plain = std::string_view(path).substr(0, path.find('?'));
  if (plain.empty() || plain.front() != '/') {
    refuse_request(ErrorCode::kBadPath, "expected a path that begins with /");
  }
  const std::vector<std::string_view> segments = segments_of(plain);
  const std::string_view wanted = method == "HEAD" ? "GET" : std::string_view(method);
  std::string methods;
  for (const Endpoint& endpoint : kEndpoints) {
    const std::vector<std::string_view> pattern = segments_of(endpoint.path);
    if (!matches(pattern, segments)) {
      continue;
    }
    Call call = call_of(pattern, segments);
    if (wanted == endpoint.method) {
      call.query = path.substr(std::min(path.size(), plain.size() + 1));
      return {&endpoint, std::move(call)};
    }
    methods += (methods.empty() ? "" : ", ") + std::string(endpoint.method);
  }
  if (!methods.empty()) {
    refuse_request(ErrorCode::kBadMethod, fmt::format("expected {}", methods), methods);
  }
  refuse_request(ErrorCode::kUnknownPath, "there is nothing at this path; see /openapi.json");
}

}  // namespace mcnb
