// The examples of the documentation, executed against the real program.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  } else if (shown.is_string() && !where.ends_with("ctionId") && !where.ends_with("].id")) {
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

}  // namespace
}  // namespace mcnb::docs_test
