#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The style rules that a machine can check: functions over text, from a line to a whole file.
namespace mcnb::style {

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

inline constexpr std::size_t kLongestLine = 100;
inline constexpr std::size_t kLongestFile = 500;
inline constexpr std::size_t kLongestFunction = 60;

// The layers and what each may use besides itself: the graph of CMakeLists.txt, where what a used
// layer uses is usable too. The folder bench/ counts as a layer.
struct Layer {
  std::string_view name;
  std::vector<std::string_view> uses;
};
inline const std::vector<Layer> kLayers = {
    {"base", {}},
    {"logs", {"base"}},
    {"storage", {"base"}},
    {"numeric", {"base"}},
    {"bandit", {"numeric"}},
    {"data", {"numeric"}},
    {"evaluate", {"bandit", "data", "logs"}},
    {"environment", {"bandit", "data"}},
    {"experiment", {"environment", "storage"}},
    {"theory", {"experiment"}},
    {"serve", {"evaluate", "storage"}},
    {"bench", {"theory", "serve", "evaluate"}},
    {"cli", {"bench", "evaluate"}},
};
inline constexpr std::array<std::string_view, 3> kLayersThatPrint = {"serve", "bench", "cli"};

inline constexpr std::array<std::string_view, 5> kIncludeRoots = {"mcnb/", "bench/", "tests/",
                                                                  "fuzz/", "python/"};

// Tokens are written with a bar inside, so that this file obeys its own rules; whole() removes it.
inline std::vector<std::string> whole(std::vector<std::string> barred) {
  for (std::string& token : barred) std::erase(token, '|');
  return barred;
}

inline const std::vector<std::string> kForbiddenWords =
    whole({"util|s", "TO|DO", "FIX|ME", "XX|X", "HA|CK"});
inline const std::vector<std::string> kMachineFolders =
    whole({"/ho|me", "/ro|ot", "/wo|rk", "/tm|p", "/mn|t", "/va|r", "/Use|rs"});
inline const std::vector<std::string> kForbiddenRandomness = whole(
    {"std::normal_|distribution", "std::shu|ffle", "std::random_|device", "ra|nd(", "sra|nd("});
inline const std::vector<std::string> kForbiddenInLibraries =
    whole({"std::co|ut", "std::ce|rr", "std::cl|og", "fmt::pr|int", "print|f(", "fprint|f(",
           "pu|ts(", "fpu|ts(", "std::ex|it", "ex|it(", "get|env", "secure_get|env"});

// The file that writes the message of a failed check, just before the abort.
inline constexpr std::string_view kLastWords = "mcnb/base/check.cpp";

template <typename Range>
bool contains(const Range& range, std::string_view value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

inline bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// True when the token stands in the line and is not part of a longer word. A folder name must also
// begin a path: "docs/work" names no machine folder.
inline bool has_token(std::string_view line, std::string_view token) {
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

inline bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return text.ends_with(ending); });
}

inline bool is_cpp(std::string_view path) { return ends_with_any(path, {".h", ".inc", ".cpp"}); }
inline bool is_source(std::string_view path) { return is_cpp(path) || path.ends_with(".py"); }

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The layer a path belongs to ("mcnb/base/error.h": "base"); nothing for tests and the like.
inline std::optional<std::string_view> layer_of(std::string_view path) {
  if (path.starts_with("bench/")) return "bench";
  if (!path.starts_with("mcnb/")) return std::nullopt;
  path.remove_prefix(5);
  return path.substr(0, path.find('/'));
}

inline const Layer* find_layer(std::string_view name) {
  const auto found = std::find_if(kLayers.begin(), kLayers.end(),
                                  [&](const Layer& layer) { return layer.name == name; });
  return found == kLayers.end() ? nullptr : &*found;
}

// True when `layer` is `other` or uses it, directly or through layers between them.
inline bool may_use(std::string_view layer, std::string_view other) {
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

inline std::optional<Include> include_in(std::string_view line) {
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

inline void check_layout(std::string_view line, std::size_t number, Findings& findings) {
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

inline void check_tokens(std::string_view line, std::size_t number,
                         const std::vector<std::string>& tokens, const std::string& reason,
                         Findings& findings) {
  for (const std::string& token : tokens) {
    if (has_token(line, token)) findings.push_back({number, token + ": " + reason});
  }
}

inline void check_include(std::string_view path, std::string_view line, std::size_t number,
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

inline void check_name(std::string_view path, Findings& findings) {
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

inline std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

inline bool is_blank(std::string_view line) { return indent_of(line) == line.size(); }

// True for each line that lies inside a raw string, where indentation says nothing.
inline std::vector<bool> raw_string_lines(const std::vector<std::string_view>& lines) {
  std::vector<bool> inside(lines.size());
  std::string end;  // of the raw string that is open
  for (std::size_t i = 0; i < lines.size(); ++i) {
    inside[i] = !end.empty();
    const std::size_t begin = end.empty() ? lines[i].find("R\"") : 0;
    if (begin == std::string_view::npos) continue;
    const std::size_t bracket = end.empty() ? lines[i].find('(', begin) : 0;
    if (bracket == std::string_view::npos) continue;
    if (end.empty()) {
      end = ")" + std::string(lines[i].substr(begin + 2, bracket - begin - 2)) + "\"";
    }
    if (lines[i].find(end, bracket) != std::string_view::npos) end.clear();
  }
  return inside;
}

// Lines from `begin` to before `end`, counted from 0.
struct Extent {
  std::size_t begin;
  std::size_t end;
};

// The functions of a file that clang-format has laid out. A function ends with a line of "}" alone
// and begins at the last line above that is indented no further. Blocks of statements are found
// too; they are shorter than their functions.
inline std::vector<Extent> cpp_functions(const std::vector<std::string_view>& lines) {
  const std::vector<bool> raw = raw_string_lines(lines);
  const auto continues = [&](std::size_t i, std::size_t indent) {
    return raw[i] || is_blank(lines[i]) || indent_of(lines[i]) > indent ||
           lines[i].starts_with('#') || lines[i][indent_of(lines[i])] == '}';
  };
  std::vector<Extent> functions;
  for (std::size_t end = 0; end < lines.size(); ++end) {
    const std::size_t indent = indent_of(lines[end]);
    if (raw[end] || lines[end].substr(indent) != "}") continue;
    std::size_t begin = end;
    while (begin > 0 && continues(begin - 1, indent)) --begin;
    functions.push_back({begin == 0 ? 0 : begin - 1, end + 1});
  }
  return functions;
}

// A function of Python ends before the next line that is indented no further than its `def`. The
// closing bracket of a long list of parameters does not count.
inline std::vector<Extent> python_functions(const std::vector<std::string_view>& lines) {
  std::vector<Extent> functions;
  for (std::size_t begin = 0; begin < lines.size(); ++begin) {
    const std::size_t indent = indent_of(lines[begin]);
    const std::string_view text = lines[begin].substr(indent);
    if (!text.starts_with("def ") && !text.starts_with("async def ")) continue;
    std::size_t last = begin;
    for (std::size_t i = begin + 1; i < lines.size(); ++i) {
      if (is_blank(lines[i])) continue;
      if (indent_of(lines[i]) <= indent && lines[i][indent] != ')') break;
      last = i;
    }
    functions.push_back({begin, last + 1});
  }
  return functions;
}

inline void check_functions(std::string_view path, const std::vector<std::string_view>& lines,
                            Findings& findings) {
  std::size_t reported_to = 0;  // blocks inside a reported function are not reported again
  std::vector<Extent> functions =
      path.ends_with(".py") ? python_functions(lines) : cpp_functions(lines);
  std::sort(functions.begin(), functions.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (const auto& [begin, end] : functions) {
    if (begin < reported_to || end - begin <= kLongestFunction) continue;
    findings.push_back({begin + 1, "the function has " + std::to_string(end - begin) + " lines"});
    reported_to = end;
  }
}

inline Findings check_source(const Source& source) {
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
  check_functions(path, lines, findings);
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
inline std::string report(const Source& source) {
  std::string text;
  for (const Finding& finding : check_source(source)) {
    const std::string line = finding.line == 0 ? "" : ":" + std::to_string(finding.line);
    text += source.path + line + ": " + finding.message + "\n";
  }
  return text;
}

}  // namespace mcnb::style
