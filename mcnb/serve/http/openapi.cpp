#include "mcnb/serve/http/openapi.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "mcnb/base/json_writer.h"
#include "mcnb/serve/http/routes.h"

namespace mcnb {
namespace {

const char* meaning_of(int status) {
  switch (status) {
    case 201:
      return "created";
    case 204:
      return "done, without a body";
    default:
      return "done";
  }
}

void write_reference(JsonWriter& out, const char* kind, std::string_view name) {
  out.begin_object().field("$ref", fmt::format("#/components/{}/{}", kind, name)).end_object();
}

void write_content(JsonWriter& out, std::string_view content_type, const char* schema) {
  out.key("content").begin_object();
  out.key(content_type.substr(0, content_type.find(';'))).begin_object().key("schema");
  write_reference(out, "schemas", schema);
  out.end_object().end_object();
}

// "POST /v1/models/{model}/rank" becomes "postModelsByModelRank": a name for generated clients.
std::string operation_id(const Endpoint& endpoint) {
  std::string id = endpoint.method;
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::tolower(c); });
  bool upper = true;
  for (const char c : std::string_view(endpoint.path)) {
    if (c == '{') {
      id += "By";
    }
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      upper = true;
      continue;
    }
    id += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return id == "get" ? "getPage" : id;
}

// The chapter of an endpoint, by the beginning of its path.
struct Tag {
  const char* name;
  const char* description;
  const char* prefix;
};
constexpr Tag kTags[] = {
    {"decisions", "What applications call.", "/v1/models/{model}/"},
    {"models", "Models and their settings.", "/v1/models"},
    {"personalizer", "The paths of the retired Personalizer service.", "/personalizer/"},
    {"people", "Figures, events and users, for people who look.", "/v1/"},
    {"service", "The service itself.", "/"},
};

const Tag& tag_of(const Endpoint& endpoint) {
  const std::string_view path = endpoint.path;
  const bool looks = endpoint.right == Right::kRead && path.starts_with("/v1/") &&
                     path != "/v1/models" && path != "/v1/models/{model}";
  const bool administers = endpoint.right == Right::kAdmin &&
                           (path.starts_with("/v1/models") || path.starts_with(kUploadPath));
  const auto is_its = [&](const Tag& tag) {
    return std::string_view(tag.name) == (looks         ? "people"
                                          : administers ? "models"
                                                        : tag.name) &&
           (looks || administers || path.starts_with(tag.prefix));
  };
  return *std::ranges::find_if(kTags, is_its);
}

void write_operation(JsonWriter& out, const Endpoint& endpoint) {
  std::string method = endpoint.method;
  std::ranges::transform(method, method.begin(), [](unsigned char c) { return std::tolower(c); });
  out.key(method).begin_object();
  out.field("operationId", operation_id(endpoint)).field("summary", endpoint.summary);
  out.key("tags").begin_array().value(tag_of(endpoint).name).end_array();
  if (endpoint.right == Right::kNone) {
    out.key("security").begin_array().end_array();
  }
  if (const std::string_view query = endpoint.query; !query.empty()) {
    out.key("parameters").begin_array();
    for (std::size_t begin = 0; begin < query.size();) {
      const std::size_t end = std::min(query.find(',', begin), query.size());
      write_reference(out, "parameters", query.substr(begin, end - begin));
      begin = end + 1;
    }
    out.end_array();
  }
  if (endpoint.request != nullptr) {
    out.key("requestBody").begin_object().field("required", true);
    const bool bytes = std::string_view(endpoint.request) == "Bytes";
    write_content(out, bytes ? "application/octet-stream" : "application/json", endpoint.request);
    out.end_object();
  }
  out.key("responses").begin_object();
  out.key(std::to_string(endpoint.status)).begin_object();
  out.field("description", meaning_of(endpoint.status));
  if (endpoint.response != nullptr) {
    write_content(out, endpoint.content_type, endpoint.response);
  }
  out.end_object();
  for (const char* status : {"4XX", "5XX"}) {
    out.key(status);
    write_reference(out, "responses", "Error");
  }
  out.end_object().end_object();
}

void write_paths(JsonWriter& out) {
  std::set<std::string_view> written;
  out.key("paths").begin_object();
  for (const Endpoint& first : endpoints()) {
    const std::string_view path = first.path;
    if (!written.insert(path).second) {
      continue;
    }
    out.key(path).begin_object();
    if (path.find('{') != std::string_view::npos) {
      out.key("parameters").begin_array();
      for (const char* name : {"model", "id"}) {
        if (path.find(fmt::format("{{{}}}", name)) != std::string_view::npos) {
          write_reference(out, "parameters", name);
        }
      }
      out.end_array();
    }
    for (const Endpoint& endpoint : endpoints()) {
      if (path == endpoint.path) {
        write_operation(out, endpoint);
      }
    }
    out.end_object();
  }
  out.end_object();
}

// The schema "ErrorCode" lists the codes, so that clients can switch over them.
void write_schemas(JsonWriter& out) {
  out.key("schemas").begin_object();
  out.key("ErrorCode").begin_object().field("type", "string").key("enum").begin_array();
  std::set<std::string_view> written;
  for (const ErrorCodeRow& row : error_codes()) {
    if (written.insert(row.name).second) {
      out.value(row.name);
    }
  }
  out.end_array().end_object();
  out.raw(kOpenApiSchemas).raw(kPersonalizerSchemas).end_object();
}

constexpr const char* kSecuritySchemes = R"({
 "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
 "bearer": {"type": "http", "scheme": "bearer"},
 "subscription": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"}})";

constexpr const char* kParameters = R"({
 "model": {"name": "model", "in": "path", "required": true, "schema": {"type": "string"}},
 "id": {"name": "id", "in": "path", "required": true,
        "schema": {"type": "string", "maxLength": 256}},
 "resolution": {"name": "resolution", "in": "query",
                "schema": {"type": "string", "enum": ["10s", "5m", "1h", "1d"], "default": "5m"}},
 "format": {"name": "format", "in": "query",
            "schema": {"type": "string", "enum": ["dsjson", "jsonl", "csv"], "default": "dsjson"}},
 "from": {"name": "from", "in": "query", "schema": {"type": "string"},
          "description": "decisions from this time on: 2026-01-31 or 2026-01-31T12:00:00Z"},
 "to": {"name": "to", "in": "query", "schema": {"type": "string"},
        "description": "decisions before this time"},
 "since": {"name": "since", "in": "query", "description": "milliseconds since 1970",
           "schema": {"type": "integer", "minimum": 0, "default": 0}}})";

constexpr const char* kErrorResponse = R"({"Error": {
 "description": "the request was refused or failed",
 "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}})";

std::string write_document() {
  JsonWriter out;
  out.begin_object().field("openapi", "3.0.3");
  out.key("info")
      .begin_object()
      .field("title", "mcnb serve")
      .field("version", MCNB_VERSION)
      .field("description", "Decide now, learn later: contextual bandits with user clusters.")
      .key("license")
      .raw(R"({"name": "Apache 2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"})")
      .end_object();
  out.key("servers").raw(R"([{"url": "/", "description": "the service that gave this document"}])");
  out.key("tags").begin_array();
  for (const Tag& tag : kTags) {
    out.begin_object().field("name", tag.name).field("description", tag.description).end_object();
  }
  out.end_array();
  out.key("security").raw(R"([{"key": []}, {"bearer": []}, {"subscription": []}])");
  write_paths(out);
  out.key("components").begin_object();
  out.key("securitySchemes").raw(kSecuritySchemes);
  out.key("parameters").raw(kParameters);
  out.key("responses").raw(kErrorResponse);
  write_schemas(out);
  out.end_object().end_object();
  return out.take();
}

}  // namespace

std::string openapi_document() {
  static const std::string kDocument = write_document();
  return kDocument;
}

}  // namespace mcnb
