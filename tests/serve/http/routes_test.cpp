// The table of endpoints, and everything that has to know each of its rows: the OpenAPI document,
// docs/HTTP_API.md and, by way of the OpenAPI document, the Python client
// (python/tests/test_client.py).

#include "mcnb/serve/http/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "mcnb/serve/http/openapi.h"
#include "tests/serve/http/curl_commands.h"
#include "tests/serve/http/refusal.h"
#include "tests/temporary_folder.h"

namespace mcnb::routes_test {
namespace {

using nlohmann::json;

std::string name_of(const Endpoint& endpoint) {
  return std::string(endpoint.method) + " " + endpoint.path;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string api_page() {
  return file_contents(std::filesystem::path(MCNB_SOURCE_DIR) / "docs/HTTP_API.md");
}

// Every "$ref" in the document.
void collect_references(const json& value, std::set<std::string>& found) {
  if (value.is_object() && value.contains("$ref")) {
    found.insert(value.at("$ref").get<std::string>());
  }
  for (const json& inner : value.is_structured() ? value : json::array()) {
    collect_references(inner, found);
  }
}

TEST(Routes, EveryPathLeadsToItsEndpoint) {
  for (const Endpoint& endpoint : endpoints()) {
    EXPECT_EQ(find_endpoint(endpoint.method, endpoint.path).endpoint, &endpoint)
        << name_of(endpoint);
  }
  EXPECT_EQ(find_endpoint("HEAD", "/livez").endpoint, find_endpoint("GET", "/livez").endpoint);
  const Match reward = find_endpoint("POST", "/v1/models/m/events/a%2Fb%20c/reward?x=1");
  EXPECT_STREQ(reward.endpoint->path, "/v1/models/{model}/events/{id}/reward");
  EXPECT_EQ(reward.call.model, "m");
  EXPECT_EQ(reward.call.id, "a/b c");
}

TEST(Routes, OtherPathsAreRefused) {
  EXPECT_EQ(refusal_of([] { find_endpoint("GET", "/v1/nothing"); }), "404 unknown_path ");
  EXPECT_EQ(refusal_of([] { find_endpoint("PUT", "/v1/models/m"); }),
            "405 bad_method GET, PATCH, DELETE");
  EXPECT_EQ(refusal_of([] { find_endpoint("GET", "v1"); }), "400 bad_path ");
  EXPECT_EQ(refusal_of([] { find_endpoint("GET", "/v1/models/m/events/%zz"); }), "400 bad_path ");
  EXPECT_EQ(refusal_of([] { find_endpoint("GET", "/v1/models/m/events/%ff"); }),
            "400 bad_field id");
}

TEST(Routes, TheOpenApiDocumentHasEveryEndpoint) {
  const json document = json::parse(openapi_document());
  EXPECT_EQ(document.at("openapi"), "3.0.3");
  std::size_t operations = 0;
  for (const json& item : document.at("paths")) {
    operations += item.size() - item.count("parameters");
  }
  EXPECT_EQ(operations, endpoints().size());
  for (const Endpoint& endpoint : endpoints()) {
    SCOPED_TRACE(name_of(endpoint));
    const json& operation = document.at("paths").at(endpoint.path).at(lower(endpoint.method));
    EXPECT_FALSE(operation.at("summary").get<std::string>().empty());
    const json& response = operation.at("responses").at(std::to_string(endpoint.status));
    EXPECT_EQ(operation.contains("requestBody"), endpoint.request != nullptr);
    EXPECT_EQ(response.contains("content"), endpoint.response != nullptr);
    // An operation has a `security` entry of its own only if it needs no key.
    EXPECT_EQ(operation.contains("security"), endpoint.right == Right::kNone);
  }
}

TEST(Routes, EverySchemaIsThereAndIsUsed) {
  const json document = json::parse(openapi_document());
  std::set<std::string> referred;
  collect_references(document, referred);
  for (const std::string& reference : referred) {
    EXPECT_TRUE(document.contains(json::json_pointer(reference.substr(1)))) << reference;
  }
  for (const auto& [name, schema] : document.at("components").at("schemas").items()) {
    EXPECT_TRUE(referred.contains("#/components/schemas/" + name)) << name;
  }
}

TEST(Routes, ThePageOfTheApiShowsEveryEndpoint) {
  std::set<const Endpoint*> shown;
  for (const CurlCommand& command : curl_commands(api_page())) {
    shown.insert(find_endpoint(command.method, command.path).endpoint);
  }
  for (const Endpoint& endpoint : endpoints()) {
    EXPECT_TRUE(shown.contains(&endpoint))
        << "docs/HTTP_API.md has no example of " << name_of(endpoint);
  }
}

TEST(Routes, ThePageOfTheApiListsEveryErrorCodeWithItsStatus) {
  const std::string page = api_page();
  for (const ErrorCodeRow& row : error_codes()) {
    bool listed = false;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      const std::string statuses = line.starts_with("| ") ? line.substr(0, line.find('|', 1)) : "";
      listed = listed || (statuses.find(std::to_string(row.status)) != std::string::npos &&
                          line.find("`" + std::string(row.name) + "`") != std::string::npos);
    }
    EXPECT_TRUE(listed) << row.status << " " << row.name;
  }
}

}  // namespace
}  // namespace mcnb::routes_test
