#include "mcnb/serve/engine/log_lines.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdio>

#include "mcnb/base/json_writer.h"

namespace mcnb {

std::string log_text(std::string_view level, std::string_view message,
                     std::initializer_list<LogField> fields) {
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  JsonWriter line;
  line.begin_object();
  line.field("time", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                 fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                                 milliseconds % 1000));
  line.field("level", level).field("message", message);
  for (const auto& [name, text] : fields) {
    line.field(name, text);
  }
  line.end_object();
  return line.take() + "\n";
}

void log_line(std::string_view level, std::string_view message,
              std::initializer_list<LogField> fields) {
  const std::string text = log_text(level, message, fields);
  // One write: lines of several threads do not mix.
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace mcnb
