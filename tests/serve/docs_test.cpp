// The examples of the documentation, and the queries of the Grafana dashboard, executed against the
// real program.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "mcnb/serve/http/openapi.h"
#include "mcnb/serve/http/routes.h"
#include "tests/serve/http/curl_commands.h"
#include "tests/serve/server_program.h"

namespace mcnb::docs_test {
namespace {

using nlohmann::json;

// A block of a page: its language and its text.
struct Block {
  std::string language;
  std::string text;
  bool follows = false;  // nothing stands between it and the block before
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream lines(page);
  std::string line;
  bool inside = false;
  bool just_ended = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) {
        blocks.push_back({line.substr(3), "", just_ended});
      }
      just_ended = !inside;
    } else if (inside) {
      blocks.back().text += line + "\n";
    } else {
      just_ended = false;
    }
  }
  return blocks;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Runs a script by bash and returns what it printed; fails the test if it fails.
std::string run_script(const TemporaryFolder& folder, const std::string& script) {
  put_file(folder / "script",
           "set -e\ncurl() { command curl -sS --fail-with-body \"$@\"; echo; }\n" + script);
  const std::string command =
      "bash " + (folder / "script").string() + " > " + (folder / "printed").string() + " 2>&1";
  const int status = std::system(command.c_str());
  const std::string printed = file_contents(folder / "printed");
  EXPECT_EQ(status, 0) << script << printed;
  return printed;
}

// Expects everything that the page shows in the answer, with the same types. Texts must be equal
// too, except for random ones.
void expect_shown(const json& shown, const json& answer, const std::string& where) {
  if (shown.is_object()) {
    for (const auto& [name, value] : shown.items()) {
      ASSERT_TRUE(answer.contains(name)) << where << "." << name << " of " << answer;
      expect_shown(value, answer.at(name), where + "." + name);
    }
  } else if (shown.is_array()) {
    ASSERT_TRUE(answer.is_array() && !answer.empty()) << where;
    expect_shown(shown.at(0), answer.at(0), where + "[0]");
  } else if (shown.is_number()) {
    EXPECT_TRUE(answer.is_number()) << where;
  } else if (shown.is_string() && !where.ends_with("ctionId") && !where.ends_with("].id") &&
             !where.ends_with(".upload")) {
    EXPECT_EQ(shown, answer) << where;
  } else {
    EXPECT_EQ(shown.type(), answer.type()) << where;
  }
}

bool has_type(const json& value, const std::string& type) {
  return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
         (type == "number" && value.is_number()) ||
         (type == "integer" && value.is_number_integer());
}

// The properties of a schema, with those of the schemas that it extends.
json properties_of(const json& document, const json& schema) {
  if (schema.contains("$ref")) {
    const std::string reference = schema.at("$ref");
    return properties_of(document, document.at(json::json_pointer(reference.substr(1))));
  }
  json properties = schema.value("properties", json::object());
  for (const json& part : schema.value("allOf", json::array())) {
    properties.update(properties_of(document, part));
  }
  return properties;
}

// Everything in the response is in the schema, with its type. A schema without properties says
// nothing about them.
void expect_in_schema(const json& response, const json& document, const json& schema,
                      const std::string& where) {
  if (response.is_null() && schema.value("nullable", false)) {
    return;
  }
  if (schema.contains("type")) {
    EXPECT_TRUE(has_type(response, schema.at("type"))) << where;
  }
  if (response.is_array() && schema.contains("items")) {
    for (const json& element : response) {
      expect_in_schema(element, document, schema.at("items"), where + "[]");
    }
  }
  const json properties = properties_of(document, schema);
  if (!response.is_object() || properties.empty()) {
    return;
  }
  for (const auto& [name, value] : response.items()) {
    ASSERT_TRUE(properties.contains(name)) << where << " has no property " << name;
    expect_in_schema(value, document, properties.at(name), where + "." + name);
  }
}

// The response to the last command of an example has the schema of its endpoint.
void expect_documented(const Block& example, const json& response) {
  static const json document = json::parse(openapi_document());
  const CurlCommand command = curl_commands(example.text).back();
  const Endpoint& endpoint = *find_endpoint(command.method, command.path).endpoint;
  ASSERT_NE(endpoint.response, nullptr);
  expect_in_schema(response, document,
                   document.at("components").at("schemas").at(endpoint.response),
                   endpoint.response);
}

TEST(Docs, EveryExampleOfTheApiWorksAsShown) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  const std::string address = "http://localhost:" + std::to_string(server.port());
  const std::vector<Block> blocks =
      blocks_of(file_contents(std::filesystem::path(MCNB_SOURCE_DIR) / "docs/HTTP_API.md"));
  int run = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].language != "sh") {
      continue;
    }
    const std::string script = replaced(blocks[i].text, "http://localhost:8080", address);
    std::string printed = run_script(folder, script);
    ++run;
    if (i + 1 < blocks.size() && blocks[i + 1].language == "json" && blocks[i + 1].follows) {
      while (!printed.empty() && printed.back() == '\n') {
        printed.pop_back();
      }
      const std::string last = printed.substr(printed.rfind('\n') + 1);
      SCOPED_TRACE(blocks[i].text + printed);
      expect_shown(json::parse(blocks[i + 1].text), json::parse(last), "answer");
      expect_documented(blocks[i], json::parse(last));
    }
  }
  EXPECT_GE(run, 15);
  EXPECT_EQ(server.stop().status, 0);
}

TEST(Docs, TheQuickstartOfTheReadmeWorks) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  const std::string address = "localhost:" + std::to_string(server.port());
  int run = 0;
  for (const Block& block :
       blocks_of(file_contents(std::filesystem::path(MCNB_SOURCE_DIR) / "README.md"))) {
    if (block.text.find("curl") == std::string::npos) {
      continue;
    }
    std::istringstream lines(block.text);
    std::string script;
    std::string line;
    while (std::getline(lines, line)) {
      if (!line.starts_with("./") && !line.starts_with("python3")) {
        script += line + "\n";
      }
    }
    const std::string printed = run_script(folder, replaced(script, "localhost:8080", address));
    EXPECT_NE(printed.find("\"outcome\":\"learned\""), std::string::npos) << printed;
    ++run;
  }
  EXPECT_EQ(run, 1);
}

TEST(Docs, TheExampleClientLearnsWhatItsUsersLike) {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  const std::string script =
      "python3 " + (std::filesystem::path(MCNB_SOURCE_DIR) / "examples/client.py").string() +
      " --url http://localhost:" + std::to_string(server.port()) + " --rounds 300";
  const std::string printed = run_script(folder, script);
  const std::size_t last = printed.rfind("liked ");
  ASSERT_NE(last, std::string::npos) << printed;
  // Two of six suit a user: chance alone gives a third.
  EXPECT_GT(std::atoi(printed.c_str() + last + 6), 45) << printed;
}

// The panels of the Grafana dashboard.
json panels() {
  const auto path = std::filesystem::path(MCNB_SOURCE_DIR) / "packaging/grafana-dashboard.json";
  return json::parse(file_contents(path)).at("panels");
}

// What /metrics says after a decision and its reward, in lines.
std::vector<std::string> metrics_after_a_reward() {
  const TemporaryFolder folder;
  ServerProgram server(folder / "data");
  HttpClient http(server.port());
  http.post("/v1/models/default/challengers", R"({"name":"c","policy":"linucb"})");
  const std::string event =
      json::parse(
          http.post("/v1/models/default/rank", R"({"userId":"u","actions":[{"id":"a"}]})").body)
          .at("eventId");
  http.post("/v1/models/default/events/" + event + "/reward", R"({"value":1})");
  std::string text;
  do {
    text = http.get("/metrics").body;  // figures of models are up to a second old
  } while (text.find("mcnb_learned_total{model=\"default\"} 1\n") == std::string::npos);
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    all.push_back(line);
  }
  return all;
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// What a query selects: a metric, and texts such as route="rank" that its line must have.
struct Selection {
  std::string metric;
  std::vector<std::string> labels;
};

std::vector<Selection> selections_of(std::string query, const std::string& legend) {
  for (std::size_t at = 0; (at = query.find("$model")) != std::string::npos;) {
    query.replace(at, 6, "default");
  }
  std::vector<std::string> grouped;  // labels that the query or its legend names without a value
  for (const std::smatch& group : matches(query, std::regex(R"(by \((\w+)\))"))) {
    grouped.push_back(group[1].str() + "=\"");
  }
  for (const std::smatch& label : matches(legend, std::regex(R"(\{\{(\w+)\}\})"))) {
    grouped.push_back(label[1].str() + "=\"");
  }
  std::vector<Selection> all;
  for (const std::smatch& found : matches(query, std::regex(R"((mcnb_\w+)(\{[^}]*\})?)"))) {
    Selection selection{found[1].str(), grouped};
    const std::string braces = found[2].str();
    for (const std::smatch& label : matches(braces, std::regex(R"(\w+="[^"]*")"))) {
      selection.labels.push_back(label[0].str());
    }
    all.push_back(selection);
  }
  return all;
}

bool selects(const Selection& selection, const std::string& line) {
  return (line.starts_with(selection.metric + "{") || line.starts_with(selection.metric + " ")) &&
         std::ranges::all_of(selection.labels, [&](const std::string& label) {
           return line.find(label) != std::string::npos;
         });
}

TEST(Grafana, EveryQueryFindsItsMetrics) {
  const std::vector<std::string> lines = metrics_after_a_reward();
  std::size_t queries = 0;
  for (const json& panel : panels()) {
    const std::string title = panel.at("title");
    EXPECT_EQ(panel.at("type") == "row", !panel.contains("targets")) << title;
    for (const json& target : panel.value("targets", json::array())) {
      const std::string query = target.at("expr");
      const std::vector<Selection> selections = selections_of(query, target.at("legendFormat"));
      EXPECT_FALSE(selections.empty()) << title << ": " << query;
      for (const Selection& selection : selections) {
        EXPECT_TRUE(std::ranges::any_of(
            lines, [&](const std::string& line) { return selects(selection, line); }))
            << title << ": nothing in /metrics is " << selection.metric << " of " << query;
      }
      ++queries;
    }
  }
  EXPECT_GT(queries, 30U);
}

TEST(Grafana, PanelsDoNotOverlap) {
  const json all = panels();
  const auto apart = [](const json& a, const json& b, const char* from, const char* size) {
    const int a_at = a.at(from);
    const int b_at = b.at(from);
    return a_at + a.at(size).get<int>() <= b_at || b_at + b.at(size).get<int>() <= a_at;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const json& a = all[i].at("gridPos");
      const json& b = all[j].at("gridPos");
      EXPECT_TRUE(apart(a, b, "x", "w") || apart(a, b, "y", "h"))
          << all[i].at("title") << " and " << all[j].at("title");
      EXPECT_NE(all[i].at("id"), all[j].at("id"));
    }
  }
}

}  // namespace
}  // namespace mcnb::docs_test
