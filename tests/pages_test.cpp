// The pages name files that exist, and their tables have rows in docs/results.csv.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "mcnb/experiment/results/results_csv.h"

namespace mcnb::pages_test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = MCNB_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::istringstream text(text_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const fs::path& folder : {kRoot, kRoot / "docs", kRoot / "fuzz"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") {
        found.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern); at != std::sregex_iterator();
       ++at) {
    found.push_back((*at)[1].str());
  }
  return found;
}

// Paths from the repository root. Names in capitals, such as NAME.cpp, stand for any file.
std::vector<std::string> paths_in(const std::string& text) {
  static const std::regex kPath(
      "(?:^|[\\s`(])((?:mcnb|tests|docs|bench|python|experiments|examples|cmake|scripts|fuzz|"
      "packaging)/[A-Za-z0-9_./+-]*[A-Za-z0-9_/])(?![*A-Za-z0-9_])");
  std::vector<std::string> paths = matches(text, kPath);
  std::erase_if(paths, [](const std::string& path) {
    static const std::regex kPlaceholder("(^|/)[A-Z]+(\\.|_|/|$)");
    return std::regex_search(path, kPlaceholder) && !path.ends_with(".md");
  });
  return paths;
}

TEST(Pages, PathsAreFound) {
  EXPECT_EQ(paths_in("see `mcnb/bandit/policy.h`, (docs/A.md) and tests/NAME_test.cpp;\n"
                     "mcnb/cli/run.cpp reads\nnot amcnb/x.h, bench/*.cpp or mcnb/bandit/NAME.h."),
            (std::vector<std::string>{"mcnb/bandit/policy.h", "docs/A.md", "mcnb/cli/run.cpp"}));
}

TEST(Pages, EveryPathThatAPageNamesExists) {
  std::size_t count = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& path : paths_in(text_of(page))) {
      EXPECT_TRUE(fs::exists(kRoot / path)) << page.filename() << " names " << path;
      ++count;
    }
  }
  EXPECT_GT(count, 50U);
}

TEST(Pages, EveryLinkLeadsToAFile) {
  static const std::regex kLink("\\]\\(([^)#]+)(?:#[^)]*)?\\)");
  for (const fs::path& page : pages()) {
    for (const std::string& link : matches(text_of(page), kLink)) {
      if (link.find("://") == std::string::npos) {
        EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page.filename() << " links " << link;
      }
    }
  }
}

TEST(Pages, EveryPictureIsOnAPage) {
  std::string all;
  for (const fs::path& page : pages()) {
    all += text_of(page);
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "docs/pictures")) {
    EXPECT_NE(all.find("pictures/" + entry.path().filename().string()), std::string::npos)
        << entry.path();
  }
}

TEST(Pages, TheReadmeNamesEveryPageOfDocs) {
  const std::string readme = text_of(kRoot / "README.md");
  for (const fs::path& page : pages()) {
    const std::string path = page.lexically_relative(kRoot).generic_string();
    if (path.starts_with("docs/")) {
      EXPECT_NE(readme.find("(" + path + ")"), std::string::npos) << path;
    }
  }
}

TEST(Pages, EveryDependencyIsExplained) {
  const std::string page = text_of(kRoot / "docs/ARCHITECTURE.md");
  for (const std::string& line : lines_of(kRoot / "packages")) {
    const std::string name = line.substr(0, line.find_first_of(" #"));
    if (!name.empty() && !name.ends_with(':')) {
      EXPECT_NE(page.find(name), std::string::npos) << name;
    }
  }
}

TEST(Pages, TheReferenceIsOfTheHeadersThatAreInstalled) {
  const std::string list = text_of(kRoot / "cmake/install.cmake");
  const std::size_t begin = list.find("set(public_headers");
  ASSERT_NE(begin, std::string::npos);
  std::vector<std::string> installed =
      matches(list.substr(begin, list.find("\n)", begin) - begin), std::regex(R"(\n  (\S+\.h))"));
  std::vector<std::string> described =
      matches(text_of(kRoot / "Doxyfile"), std::regex(R"(mcnb/(\S+\.h))"));
  std::ranges::sort(installed);
  std::ranges::sort(described);
  EXPECT_EQ(installed, described);
  EXPECT_GT(installed.size(), 10U);
}

TEST(Pages, EveryTableOfTheResultsComesFromTheirFile) {
  const std::string made = results_markdown(read_results_csv(kRoot / "docs/results.csv"));
  std::set<std::string> rows;
  std::istringstream text(made);
  for (std::string line; std::getline(text, line);) {
    rows.insert(line);
  }
  std::size_t count = 0;
  for (const std::string& line : lines_of(kRoot / "docs/RESULTS.md")) {
    if (line.starts_with("|")) {
      EXPECT_TRUE(rows.contains(line)) << line;
      ++count;
    }
  }
  EXPECT_GT(count, 10U);
}

// bench/NAME.h that declares bench_NAME is a benchmark.
TEST(Pages, EveryBenchmarkIsACommandWithALineInTheResults) {
  const std::string commands = text_of(kRoot / "mcnb/cli/bench.cpp");
  const std::string results = text_of(kRoot / "docs/RESULTS.md");
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "bench")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".h" &&
        text_of(entry.path()).find(" bench_" + name + "(") != std::string::npos) {
      EXPECT_NE(commands.find("\"" + name + "\""), std::string::npos) << name;
      EXPECT_NE(results.find("`mcnb bench " + name + "`"), std::string::npos) << name;
      ++count;
    }
  }
  EXPECT_GE(count, 5U);
}

TEST(Pages, SomePagesStayShort) {
  EXPECT_LE(lines_of(kRoot / "docs/RESULTS.md").size(), 190U);
  EXPECT_LE(lines_of(kRoot / "CHANGELOG.md").size(), 80U);
  for (const auto& entry : fs::directory_iterator(kRoot / "examples/cpp")) {
    EXPECT_LT(lines_of(entry.path()).size(), 125U) << entry.path();
  }
}

}  // namespace
}  // namespace mcnb::pages_test
