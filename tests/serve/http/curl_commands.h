#pragma once

#include <regex>
#include <string>
#include <vector>

namespace mcnb {

// A request that a page shows as a curl command.
struct CurlCommand {
  std::string method;
  std::string path;
};

// The curl commands in a text, in order. A command starts at the beginning of a line.
inline std::vector<CurlCommand> curl_commands(const std::string& text) {
  std::vector<CurlCommand> commands;
  const std::regex begin(R"((^|\n)curl (?:-X (\w+) )?http://localhost:\d+(\S+)([^\n]*))");
  for (std::sregex_iterator it(text.begin(), text.end(), begin); it != std::sregex_iterator();
       ++it) {
    const std::smatch& found = *it;
    const bool has_body = found[4].str().find("--json ") != std::string::npos ||
                          found[4].str().find("--data-binary ") != std::string::npos;
    commands.push_back({found[2].matched ? found[2].str() : has_body ? "POST" : "GET", found[3]});
  }
  return commands;
}

}  // namespace mcnb
