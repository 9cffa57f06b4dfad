#include "mcnb/serve/http/routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "mcnb/serve/http/identifiers.h"

namespace mcnb {
namespace {

using H = Handlers;
constexpr Right kNone = Right::kNone;
constexpr Right kDecide = Right::kDecide;
constexpr Right kRead = Right::kRead;
constexpr Right kAdmin = Right::kAdmin;
constexpr const char* kNoBody = nullptr;
constexpr const char* kPrometheusText = "text/plain; version=0.0.4";
constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kScript = "text/javascript; charset=utf-8";
constexpr const char* kStyle = "text/css; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kJsonLines = "application/x-ndjson";

// clang-format off
// Columns: method, path, right, handler, metric label, status of success;
//          summary, schema of the request, schema of the response, content type if it is not JSON,
//          query parameters.
constexpr Endpoint kEndpoints[] = {
    {"GET", "/", kNone, &H::page, "other", 200,
     "The dashboard", kNoBody, "Page", kHtml},
    {"GET", "/page.js", kNone, &H::page_script, "other", 200,
     "The program of the dashboard", kNoBody, "Page", kScript},
    {"GET", "/page.css", kNone, &H::page_style, "other", 200,
     "The style of the dashboard", kNoBody, "Page", kStyle},
    {"GET", "/docs", kNone, &H::docs, "other", 200,
     "This document as a page", kNoBody, "Page", kHtml},
    {"GET", "/docs.js", kNone, &H::docs_script, "other", 200,
     "The program of that page", kNoBody, "Page", kScript},
    {"GET", "/v1/series", kRead, &H::series, "other", 200,
     "Figures of all models over time", kNoBody, "AllSeries", kJson, "resolution,since"},
    {"GET", "/v1/live", kRead, &H::live_series, "other", 200,
     "The latest figures of all models, a line every second", kNoBody, "AllSeries", kJsonLines},
    {"GET", "/v1/models/{model}/series", kRead, &H::model_series, "other", 200,
     "Figures of a model over time", kNoBody, "Series", kJson, "resolution,since"},
    {"GET", "/v1/models/{model}/map", kRead, &H::user_map, "other", 200,
     "What the learners of users say about recent actions, in two dimensions", kNoBody, "UserMap"},
    {"POST", "/v1/models/{model}/try", kRead, &H::try_rank, "other", 200,
     "Shows how the model would decide; nothing is logged, learned or changed",
     "RankRequest", "Decision"},
    {"GET", "/v1/models/{model}/users/{id}/estimates", kRead, &H::user_estimates, "other", 200,
     "What a model expects of recent actions for a user, and why", kNoBody, "UserEstimates"},
    {"GET", "/v1/models/{model}/users/{id}/events", kRead, &H::latest_events_of, "other",
     200, "The latest events of a user", kNoBody, "Events"},
    {"GET", "/v1/models/{model}/events", kRead, &H::latest_events_of, "other", 200,
     "The latest events", kNoBody, "Events"},
    {"GET", "/v1/models/{model}/events/{id}/behind", kRead, &H::look_behind_event, "other", 200,
     "Who agrees about the answer of an event now, and which samples move its estimate most",
     kNoBody, "Behind"},
    {"GET", "/v1/models/{model}/log", kRead, &H::show_log, "other", 200,
     "The decisions of a model whose waiting time is over, with their rewards, while they are read",
     kNoBody, "Log", kJsonLines, "format,from,to"},
    {"GET", "/v1/models/{model}/settings", kRead, &H::settings_history, "other", 200,
     "The settings of a model and how they were changed", kNoBody, "SettingsHistory"},
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
    {"POST", "/v1/uploads", kAdmin, &H::upload, "admin", 201,
     "Takes a saved policy or a log, for a new model to begin from; it is kept for an hour",
     "Bytes", "Upload"},
    {"DELETE", "/v1/uploads/{id}", kAdmin, &H::remove_upload, "admin", 204,
     "Drops an upload", kNoBody, kNoBody},
    {"GET", "/v1/models/{model}", kRead, &H::show_model, "admin", 200,
     "Shows a model", kNoBody, "Model"},
    {"PATCH", "/v1/models/{model}", kAdmin, &H::change_model, "admin", 200,
     "Changes settings of a model", "Settings", "Model"},
    {"DELETE", "/v1/models/{model}", kAdmin, &H::delete_model, "admin", 204,
     "Deletes a model and its log", kNoBody, kNoBody},
    {"POST", "/v1/models/{model}/snapshot", kAdmin, &H::snapshot_model, "admin", 200,
     "Writes a snapshot now", kNoBody, "Snapshot"},
    {"POST", "/v1/models/{model}/challengers", kAdmin, &H::add_challenger, "admin", 201,
     "Adds a policy that learns beside the model's own and never answers", "NewChallenger",
     "Model"},
    {"DELETE", "/v1/models/{model}/challengers/{id}", kAdmin, &H::remove_challenger, "admin", 204,
     "Removes a challenger", kNoBody, kNoBody},
    {"POST", "/v1/models/{model}/promote", kAdmin, &H::promote, "admin", 200,
     "Makes a challenger the policy that answers", "Promotion", "Model"},
    {"POST", "/v1/models/{model}/rank", kDecide, &H::rank, "rank", 200,
     "Decides which action to show; the decision is on disk when the response is sent",
     "RankRequest", "Decision"},
    {"POST", "/v1/models/{model}/events/{id}/reward", kDecide, &H::reward, "reward", 200,
     "Rewards an event", "Reward", "RewardOutcome"},
    {"POST", "/v1/models/{model}/events/{id}/activate", kDecide, &H::activate, "activate", 204,
     "Says that the action of a deferred event was shown", kNoBody, kNoBody},
    {"GET", "/v1/models/{model}/events/{id}", kRead, &H::show_event, "admin", 200,
     "Shows a decision with its explanation", kNoBody, "Event"},
    {"GET", "/v1/models/{model}/users/{id}", kRead, &H::show_user, "admin", 200,
     "Shows what a model knows about a user", kNoBody, "User"},
    {"DELETE", "/v1/models/{model}/users/{id}", kAdmin, &H::forget_user, "admin", 204,
     "Makes a model forget a user", kNoBody, kNoBody},
    {"POST", "/v1/backup", kAdmin, &H::back_up, "admin", 201,
     "Copies all data while the service runs", "NewBackup", "Backup"},
    {"GET", "/v1/nodes", kRead, &H::nodes, "admin", 200,
     "Lists the processes that serve this store", kNoBody, "Nodes"},
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
    {"POST", "/personalizer/v1.1-preview.3/rank", kDecide, &H::personalizer_rank, "rank", 201,
     "Decides, as a preview of the retired Personalizer service did", "PersonalizerRankRequest",
     "Decision"},
    {"POST", "/personalizer/v1.1-preview.3/events/{id}/reward", kDecide, &H::personalizer_reward,
     "reward", 204, "Rewards an event, as a preview of the retired Personalizer service did",
     "PersonalizerReward", kNoBody},
    {"POST", "/personalizer/v1.1-preview.3/events/{id}/activate", kDecide,
     &H::personalizer_activate, "activate", 204,
     "Activates an event, as a preview of the retired Personalizer service did", kNoBody, kNoBody},
    {"POST", "/personalizer/v1.1-preview.3/multislot/rank", kDecide, &H::personalizer_rank_slots,
     "rank", 201, "Decides several slots, as the retired Personalizer service did",
     "PersonalizerSlotsRequest", "PersonalizerSlots"},
    {"POST", "/personalizer/v1.1-preview.3/multislot/events/{id}/reward", kDecide,
     &H::personalizer_reward_slots, "reward", 204,
     "Rewards slots of an event, as the retired Personalizer service did",
     "PersonalizerSlotRewards", kNoBody},
    {"POST", "/personalizer/v1.1-preview.3/multislot/events/{id}/activate", kDecide,
     &H::personalizer_activate, "activate", 204,
     "Activates all slots of an event, as the retired Personalizer service did", kNoBody, kNoBody},
};
// clang-format on

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Decodes the %-escapes of one segment. Refuses malformed ones.
std::string unescape(std::string_view segment) {
  std::string text;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] != '%') {
      text += segment[i];
      continue;
    }
    const int high = i + 2 < segment.size() ? hex_digit(segment[i + 1]) : -1;
    const int low = i + 2 < segment.size() ? hex_digit(segment[i + 2]) : -1;
    if (high < 0 || low < 0) {
      refuse_request(ErrorCode::kBadPath, "expected two hexadecimal digits after % in the path");
    }
    text += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return text;
}

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
      call.model = unescape(segments[i]);
    } else if (pattern[i] == "{id}") {
      call.id = unescape(segments[i]);
      check_id(call.id, "id");
    }
  }
  return call;
}

std::string unescape_plus(std::string_view text) {
  std::string plain(text);
  std::ranges::replace(plain, '+', ' ');
  return unescape(plain);
}

bool names(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == name) {
      return true;
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Endpoints without parameters ignore the query, as they always did.
void read_query(std::string_view query, const Endpoint& endpoint, Call& call) {
  const std::string_view known = endpoint.query;
  while (!known.empty() && !query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = unescape_plus(pair.substr(0, equals));
    if (!names(known, name)) {
      refuse_request(ErrorCode::kUnknownField,
                     fmt::format("unknown query parameter \"{}\": expected {}", name, known), name);
    }
    call.query[name] = unescape_plus(pair.substr(std::min(equals + 1, pair.size())));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
  }
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
      read_query(std::string_view(path).substr(std::min(plain.size() + 1, path.size())), endpoint,
                 call);
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
