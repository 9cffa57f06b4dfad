// The style rules of style_rules.h. The tests show each of them a bad example, and one walks the
// whole source tree.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/style_rules.h"

namespace mcnb::style_test {
namespace {

using namespace style;
namespace fs = std::filesystem;

std::vector<Source> sources_of_the_project() {
  std::vector<Source> sources;
  const fs::path root = MCNB_SOURCE_DIR;
  for (const char* folder : {"mcnb", "bench", "tests", "fuzz", "python"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().lexically_relative(root).generic_string();
      if (!entry.is_regular_file() || !is_source(path)) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      sources.push_back({path, std::string(std::istreambuf_iterator<char>(file), {})});
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

// Expects the checkers to find the one bad line of an otherwise good file and to name its location.
void expect_found(const std::string& path, const std::string& line, const std::string& message) {
  const std::string text = report({path, "#pragma once\n" + line + "\n"});
  EXPECT_NE(text.find(path + ":2: "), std::string::npos) << line << "\n" << text;
  EXPECT_NE(text.find(message), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

std::string file_in(std::string_view layer, const std::string& name) {
  return (layer == "bench" ? "bench/" : "mcnb/" + std::string(layer) + "/") + name;
}

void expect_fine(const std::string& path, const std::string& line) {
  EXPECT_EQ(report({path, "#pragma once\n" + line + "\n"}), "");
}

TEST(Style, EveryFileKeepsTheRules) {
  const std::vector<Source> sources = sources_of_the_project();
  const auto is_this_file = [](const Source& source) {
    return source.path == "tests/style_test.cpp";
  };
  ASSERT_TRUE(std::any_of(sources.begin(), sources.end(), is_this_file));
  for (const Source& source : sources) {
    const std::string found = report(source);
    EXPECT_TRUE(found.empty()) << found;
  }
}

TEST(Style, PartsOfSourceFilesKeepTheRulesToo) {
  EXPECT_TRUE(is_source("mcnb/numeric/a.inc"));
  expect_found("mcnb/numeric/a.inc", "#include \"mcnb/bandit/b.h\"", "may not use layer bandit");
  expect_found("mcnb/numeric/a.inc", "  " + kForbiddenInLibraries[0] + ";", "does not print");
  EXPECT_EQ(report({"mcnb/numeric/a.inc", "int a;\n"}), "");
}

TEST(Style, ALayerMayUseOnlyWhatTheGraphSays) {
  for (const Layer& layer : kLayers) {
    for (const Layer& other : kLayers) {
      const std::string path = file_in(layer.name, "a.h");
      const std::string header = file_in(other.name, "b.h");
      if (may_use(layer.name, other.name)) {
        expect_fine(path, "#include \"" + header + "\"");
      } else {
        const std::string message = "may not use layer " + std::string(other.name);
        expect_found(path, "#include \"" + header + "\"", message);
        expect_found(path, "#  include <" + header + ">", message);
      }
    }
  }
  for (const auto& [layer, other] : {std::pair{"data", "bandit"},
                                     {"serve", "environment"},
                                     {"storage", "numeric"},
                                     {"base", "numeric"}}) {
    EXPECT_FALSE(may_use(layer, other)) << layer << " " << other;
  }
  EXPECT_TRUE(may_use("cli", "base"));
}

// The graph above must equal the one that CMake builds.
TEST(Style, TheGraphOfLayersIsThatOfCMake) {
  std::ifstream file(fs::path(MCNB_SOURCE_DIR) / "CMakeLists.txt");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const Layer& layer : kLayers) {
    const std::string name(layer.name);
    std::size_t begin = text.find("mcnb_layer(" + name + " USES");
    for (const std::string& other :
         {"mcnb_library(mcnb_" + name + " ", std::string("mcnb_program(mcnb mcnb/") + name}) {
      begin = std::min(begin, text.find(other));
    }
    ASSERT_NE(begin, std::string::npos) << name;
    const std::string call = text.substr(begin, text.find(')', begin) - begin);
    for (const Layer& other : kLayers) {
      const bool used =
          has_token(call.substr(call.find("USES")), "mcnb_" + std::string(other.name));
      EXPECT_EQ(used, contains(layer.uses, other.name)) << name << " uses " << other.name;
    }
  }
}

TEST(Style, IncludesOfLayersAreFound) {
  expect_fine("mcnb/numeric/a.h", "#include \"mcnb/base/b.h\"");
  expect_fine("mcnb/numeric/a.h", "#include \"mcnb/numeric/b.h\"");
  expect_fine("tests/base/a_test.cpp", "#include \"mcnb/cli/b.h\"");
  expect_found("mcnb/base/a.h", "#include \"tests/b.h\"", "may use layers only");
  EXPECT_NE(report({"mcnb/extra/a.cpp", ""}).find("no layer is named extra"), std::string::npos);
}

TEST(Style, OurHeadersAreIncludedFromTheRoot) {
  expect_found("mcnb/base/a.cpp", "#include \"a.h\"", "from the repository root");
  expect_found("mcnb/base/a.cpp", "#include \"../base/a.h\"", "from the repository root");
  expect_found("mcnb/base/a.cpp", "#include \"mcnb/base/../base/a.h\"", "from the repository root");
  expect_fine("mcnb/base/a.cpp", "#include <vector>");
}

TEST(Style, LinesAreShortAndClean) {
  expect_found("bench/a.cpp", std::string(kLongestLine + 1, 'a'), "has 101 characters");
  expect_fine("bench/a.cpp", std::string(kLongestLine, 'a'));
  expect_fine("bench/a.cpp", "// " + std::string(kLongestLine - 4, 'a') + "\xC3\xA9");
  expect_found("bench/a.cpp", "\tint a;", "tab");
  expect_found("bench/a.py", "a = 1 ", "white space at the end");
  expect_found("bench/a.cpp", "int a;\r", "white space at the end");
}

TEST(Style, FilesAreShort) {
  std::string text;
  for (std::size_t i = 0; i < kLongestFile; ++i) text += "int a;\n";
  EXPECT_EQ(report({"bench/a.cpp", text}), "");
  EXPECT_EQ(report({"bench/a.cpp", text + "int a;\n"}), "bench/a.cpp: the file has 501 lines\n");
}

// A function of `head`, so many lines of `body`, and `foot`, behind another function.
std::string function_of(const std::string& head, const std::string& body, std::size_t lines,
                        const std::string& foot) {
  std::string text = head + "\n";
  for (std::size_t i = 0; i < lines; ++i) text += body + "\n";
  return text + foot;
}

TEST(Style, FunctionsAreShort) {
  const auto expect_length = [](const std::string& path, const std::string& head,
                                const std::string& body, const std::string& foot) {
    const std::string before = path.ends_with(".py") ? "def f():\n    pass\n" : "void f() {\n}\n";
    const std::size_t ends =
        std::count(head.begin(), head.end(), '\n') + std::count(foot.begin(), foot.end(), '\n');
    const std::size_t room = kLongestFunction - 1 - static_cast<std::size_t>(ends);
    EXPECT_EQ(report({path, before + function_of(head, body, room, foot)}), "") << head;
    EXPECT_EQ(report({path, before + function_of(head, body, room + 1, foot)}),
              path + ":3: the function has 61 lines\n")
        << head;
  };
  expect_length("bench/a.cpp", "int g() {", "  h();", "}\n");
  expect_length("bench/a.cpp", "int g(int a,\n      int b) {", "  h();", "}\n");
  expect_length("bench/a.cpp", "int g() {\n  if (a) {", "    h();", "  }\n  h();\n}\n");
  expect_length("bench/a.cpp", "int g() {\n  if (a) {\n  } else {\n\n#if 1", "    h();",
                "#endif\n  }\n}\n");
  expect_length("bench/a.cpp", "int g() {\n  h(R\"x(", "}", ")x\");\n}\n");
  expect_length("bench/a.py", "def g():", "    h()", "");
  expect_length("bench/a.py", "def g(\n    a,\n) -> int:", "    h()", "");
  EXPECT_EQ(
      report({"bench/a.cpp", "class A {\n" + function_of(" public:", "  int a();", 99, "};\n")}),
      "");
  EXPECT_EQ(
      report({"bench/a.cpp", function_of("namespace a {", "int a();", 99, "}  // namespace a\n")}),
      "");
}

TEST(Style, HeadersSayPragmaOnce) {
  EXPECT_EQ(report({"mcnb/base/a.h", "int a;\n"}), "mcnb/base/a.h: no #pragma once\n");
  EXPECT_EQ(report({"mcnb/base/a.cpp", "int a;\n"}), "");
}

TEST(Style, FileNamesAreSnakeCase) {
  for (const char* name : {"NetworkPool", "network-pool", "_pool", "pool_", "network__pool"}) {
    EXPECT_NE(report({"bench/" + std::string(name) + ".cpp", ""}).find("not snake_case"),
              std::string::npos)
        << name;
  }
  for (const char* name : {"network_pool.cpp", "svd2.cpp", "__init__.py"}) {
    EXPECT_EQ(report({"bench/" + std::string(name), ""}), "");
  }
  EXPECT_NE(report({"bench/" + kForbiddenWords[0] + ".cpp", ""}), "");
}

TEST(Style, WordsThatSayNothingAreAvoided) {
  for (const std::string& word : kForbiddenWords) {
    expect_found("mcnb/base/a.cpp", "// " + word + ": later", "a word to avoid");
    expect_found("bench/a.py", "# (" + word + ")", "a word to avoid");
    expect_fine("mcnb/base/a.cpp", "int " + word + "_more;");
  }
}

TEST(Style, PathsOfOneMachineAreAvoided) {
  for (const std::string& folder : kMachineFolders) {
    expect_found("tests/a.cpp", "open(\"" + folder + "/a\");", "of one machine");
    expect_found("bench/a.py", "path = '" + folder + "'", "of one machine");
    expect_fine("tests/a.cpp", "open(\"docs" + folder + "/a\");");
  }
}

TEST(Style, RandomNumbersComeFromOurGenerator) {
  for (const std::string& token : kForbiddenRandomness) {
    expect_found("tests/a.cpp", "x = " + token + ");", "draw from mcnb::Rng");
  }
  expect_fine("tests/a.cpp", "x = ope" + kForbiddenRandomness[3] + "1);");
  expect_fine("bench/peers/a.py", "x = torch." + kForbiddenRandomness[3] + "2)");
}

TEST(Style, LibrariesDoNotPrintOrExit) {
  for (const std::string& token : kForbiddenInLibraries) {
    const std::string line = "  " + token + ";";
    for (const Layer& layer : kLayers) {
      const std::string path = file_in(layer.name, "a.cpp");
      if (contains(kLayersThatPrint, layer.name)) {
        expect_fine(path, line);
      } else {
        expect_found(path, line, "a library does not print");
      }
    }
  }
  expect_fine("mcnb/base/check.cpp", kForbiddenInLibraries[3] + "(stderr, text);");
  expect_fine("mcnb/base/a.cpp", "std::sn" + kForbiddenInLibraries[4] + "buffer, size, text);");
}

}  // namespace
}  // namespace mcnb::style_test
