// The style rules that a machine can check. The checkers are functions over text; the tests below
// show each of them a bad example first, then walk the whole source tree.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Finding {
  std::size_t line;  // counted from 1; 0 when the finding is about the whole file
  std::string message;
};
using Findings = std::vector<Finding>;

// A source file, by its path from the repository root.
struct Source {
  std::string path;
  std::string text;
};

constexpr std::size_t kLongestLine = 100;
constexpr std::size_t kLongestFile = 600;

// The layers and what each may use besides itself: the graph of CMakeLists.txt, where what a used
// layer uses is usable too. The folder bench/ counts as a layer.
struct Layer {
  std::string_view name;
  std::vector<std::string_view> uses;
};
const std::vector<Layer> kLayers = {
    {"base", {}},
    {"storage", {"base"}},
    {"numeric", {"base"}},
    {"bandit", {"numeric"}},
    {"data", {"numeric"}},
    {"environment", {"bandit", "data"}},
    {"experiment", {"environment", "storage"}},
    {"theory", {"experiment"}},
    {"serve", {"bandit", "storage"}},
    {"bench", {"theory", "serve"}},
    {"cli", {"bench"}},
};
constexpr std::array<std::string_view, 3> kLayersThatPrint = {"serve", "bench", "cli"};

constexpr std::array<std::string_view, 5> kIncludeRoots = {"mcnb/", "bench/", "tests/", "fuzz/",
                                                           "python/"};

// Tokens are written with a bar inside, so that this file obeys its own rules; whole() removes it.
std::vector<std::string> whole(std::vector<std::string> barred) {
  for (std::string& token : barred) std::erase(token, '|');
  return barred;
}

const std::vector<std::string> kForbiddenWords =
    whole({"util|s", "TO|DO", "FIX|ME", "XX|X", "HA|CK"});
const std::vector<std::string> kMachineFolders =
    whole({"/ho|me", "/ro|ot", "/wo|rk", "/tm|p", "/mn|t", "/va|r", "/Use|rs"});
const std::vector<std::string> kForbiddenRandomness = whole(
    {"std::normal_|distribution", "std::shu|ffle", "std::random_|device", "ra|nd(", "sra|nd("});
const std::vector<std::string> kForbiddenInLibraries =
    whole({"std::co|ut", "std::ce|rr", "std::cl|og", "fmt::pr|int", "print|f(", "fprint|f(",
           "pu|ts(", "fpu|ts(", "std::ex|it", "ex|it(", "get|env", "secure_get|env"});

// The file that writes the message of a failed check, just before the abort.
constexpr std::string_view kLastWords = "mcnb/base/check.cpp";

template <typename Range>
bool contains(const Range& range, std::string_view value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// True when the token stands in the line and is not part of a longer word. A folder name must also
// begin a path: "docs/work" names no machine folder.
bool has_token(std::string_view line, std::string_view token) {
  const auto joins_before = [&](char c) {
    return is_word_character(c) ||
           (token.front() == '/' && std::string_view("./-})>").find(c) != std::string_view::npos);
  };
  for (std::size_t at = line.find(token); at != std::string_view::npos;
       at = line.find(token, at + 1)) {
    const std::size_t end = at + token.size();
    const bool starts = at == 0 || !joins_before(line[at - 1]);
    const bool ends =
        end == line.size() || !is_word_character(token.back()) || !is_word_character(line[end]);
    if (starts && ends) return true;
  }
  return false;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return text.ends_with(ending); });
}

bool is_cpp(std::string_view path) { return ends_with_any(path, {".h", ".inc", ".cpp"}); }
bool is_source(std::string_view path) { return is_cpp(path) || path.ends_with(".py"); }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The layer a path belongs to ("mcnb/base/error.h": "base"); nothing for tests and the like.
std::optional<std::string_view> layer_of(std::string_view path) {
  if (path.starts_with("bench/")) return "bench";
  if (!path.starts_with("mcnb/")) return std::nullopt;
  path.remove_prefix(5);
  return path.substr(0, path.find('/'));
}

const Layer* find_layer(std::string_view name) {
  const auto found = std::find_if(kLayers.begin(), kLayers.end(),
                                  [&](const Layer& layer) { return layer.name == name; });
  return found == kLayers.end() ? nullptr : &*found;
}

// True when `layer` is `other` or uses it, directly or through layers between them.
bool may_use(std::string_view layer, std::string_view other) {
  if (layer == other) return true;
  const Layer* const found = find_layer(layer);
  return found != nullptr &&
         std::any_of(found->uses.begin(), found->uses.end(),
                     [&](std::string_view used) { return may_use(used, other); });
}

struct Include {
  std::string_view path;
  bool quoted;
};

std::optional<Include> include_in(std::string_view line) {
  const auto skip_spaces = [&] {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  };
  skip_spaces();
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  skip_spaces();
  if (!line.starts_with("include")) return std::nullopt;
  line.remove_prefix(7);
  skip_spaces();
  if (!line.starts_with('"') && !line.starts_with('<')) return std::nullopt;
  const bool quoted = line.front() == '"';
  line.remove_prefix(1);
  return Include{line.substr(0, line.find(quoted ? '"' : '>')), quoted};
}

void check_layout(std::string_view line, std::size_t number, Findings& findings) {
  const auto continues_character = [](char c) { return (c & '\xC0') == '\x80'; };  // UTF-8
  const auto length = line.size() - static_cast<std::size_t>(std::count_if(line.begin(), line.end(),
                                                                           continues_character));
  if (length > kLongestLine) {
    findings.push_back({number, "the line has " + std::to_string(length) + " characters"});
  }
  if (line.find('\t') != std::string_view::npos) findings.push_back({number, "tab"});
  if (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    findings.push_back({number, "white space at the end of the line"});
  }
}

void check_tokens(std::string_view line, std::size_t number, const std::vector<std::string>& tokens,
                  const std::string& reason, Findings& findings) {
  for (const std::string& token : tokens) {
    if (has_token(line, token)) findings.push_back({number, token + ": " + reason});
  }
}

void check_include(std::string_view path, std::string_view line, std::size_t number,
                   Findings& findings) {
  const std::optional<Include> include = include_in(line);
  if (!include) return;
  const bool from_root =
      std::any_of(kIncludeRoots.begin(), kIncludeRoots.end(),
                  [&](std::string_view root) { return include->path.starts_with(root); });
  if (include->quoted && (!from_root || include->path.find("../") != std::string_view::npos)) {
    findings.push_back({number,
                        "include our headers by their path from the repository root, "
                        "and those of others with <>"});
  }
  const auto layer = layer_of(path);
  const auto included = layer_of(include->path);
  if (!layer) return;
  if (included && !may_use(*layer, *included)) {
    findings.push_back(
        {number, "layer " + std::string(*layer) + " may not use layer " + std::string(*included)});
  }
  if (!included && from_root) {
    findings.push_back({number, "layer " + std::string(*layer) + " may use layers only"});
  }
}

void check_name(std::string_view path, Findings& findings) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const std::string_view stem = file.substr(0, file.find('.'));
  const auto plain = [](char c) {
    return c == '_' || std::islower(static_cast<unsigned char>(c)) != 0 ||
           std::isdigit(static_cast<unsigned char>(c)) != 0;
  };
  const bool python_name = path.ends_with(".py") && (stem == "__init__" || stem == "__main__");
  if (!python_name &&
      (stem.empty() || !std::all_of(stem.begin(), stem.end(), plain) || stem.front() == '_' ||
       stem.back() == '_' || stem.find("__") != std::string_view::npos)) {
    findings.push_back({0, "the file name is not snake_case"});
  }
  if (contains(kForbiddenWords, stem)) findings.push_back({0, "the file name says nothing"});
  if (const auto layer = layer_of(path); layer && find_layer(*layer) == nullptr) {
    findings.push_back({0, "no layer is named " + std::string(*layer)});
  }
}

Findings check_source(const Source& source) {
  const std::string_view path = source.path;
  const std::vector<std::string_view> lines = lines_of(source.text);
  const auto layer = layer_of(path);
  Findings findings;

  check_name(path, findings);
  if (lines.size() > kLongestFile) {
    findings.push_back({0, "the file has " + std::to_string(lines.size()) + " lines"});
  }
  if (path.ends_with(".h") && !contains(lines, "#pragma once")) {
    findings.push_back({0, "no #pragma once"});
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const std::size_t number = i + 1;
    check_layout(line, number, findings);
    check_tokens(line, number, kForbiddenWords, "a word to avoid", findings);
    check_tokens(line, number, kMachineFolders, "a path of one machine", findings);
    if (!is_cpp(path)) continue;
    check_include(path, line, number, findings);
    check_tokens(line, number, kForbiddenRandomness, "draw from mcnb::Rng instead", findings);
    if (layer && !contains(kLayersThatPrint, *layer) && path != kLastWords) {
      check_tokens(line, number, kForbiddenInLibraries,
                   "a library does not print, exit or read the environment", findings);
    }
  }
  return findings;
}

// "path:line: message" for each finding, one per line; empty if there are no findings.
std::string report(const Source& source) {
  std::string text;
  for (const Finding& finding : check_source(source)) {
    const std::string line = finding.line == 0 ? "" : ":" + std::to_string(finding.line);
    text += source.path + line + ": " + finding.message + "\n";
  }
  return text;
}

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
                                     {"serve", "data"},
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
  EXPECT_EQ(report({"bench/a.cpp", text + "int a;\n"}), "bench/a.cpp: the file has 601 lines\n");
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
