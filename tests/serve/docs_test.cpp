// The examples of the documentation, executed against the real program.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/serve/serving.h"

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

// Everything that the page shows is in the answer, with the same types; texts are the same too,
// but for those that chance decides.
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

TEST(Docs, EveryExampleOfTheApiWorksAsShown) {
  const TemporaryFolder folder;
  Serving server(folder / "data");
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
    }
  }
  EXPECT_GE(run, 15);
  EXPECT_EQ(server.stop().status, 0);
}

TEST(Docs, TheQuickstartOfTheReadmeWorks) {
  const TemporaryFolder folder;
  Serving server(folder / "data");
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
  Serving server(folder / "data");
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
