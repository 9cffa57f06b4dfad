#pragma once

#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {

// Who changed what, and which keys were refused: lines of the level "audit" in the log, and in a
// file of their own if one is named. Holds no keys and no names of users. Safe from many threads.
class AuditLog {
 public:
  // `path`: file to which lines are added; empty: none. Throws Error (kSystem) if it cannot be
  // written.
  explicit AuditLog(std::string path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void write(std::string_view message, std::initializer_list<LogField> fields);
  // Opens the file again, for those who rotate logs. Goes on with the old one if it fails, and
  // throws Error (kSystem).
  void reopen();

 private:
  int open() const;

  std::string path_;
  std::mutex mutex_;
  int file_ = -1;
  bool failed_ = false;  // the last line could not be written
};

}  // namespace mcnb
