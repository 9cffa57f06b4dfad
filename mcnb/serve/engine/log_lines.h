#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace mcnb {

// Structured log lines: one JSON object each, on the standard error stream.
using LogField = std::pair<std::string_view, std::string>;
// The line, with its end.
std::string log_text(std::string_view level, std::string_view message,
                     std::initializer_list<LogField> fields);
void log_line(std::string_view level, std::string_view message,
              std::initializer_list<LogField> fields = {});
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log_line("info", message, fields);
}
inline void log_warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log_line("warning", message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log_line("error", message, fields);
}

}  // namespace mcnb
