#include "mcnb/serve/http/audit_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {

AuditLog::AuditLog(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) {
    file_ = open();
  }
}

AuditLog::~AuditLog() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

int AuditLog::open() const {
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
  return file;
}

void AuditLog::write(std::string_view message, std::initializer_list<LogField> fields) {
  const std::string line = log_text("audit", message, fields);
  std::fwrite(line.data(), 1, line.size(), stderr);
  const std::lock_guard lock(mutex_);
  if (file_ < 0) {
    return;
  }
  const bool failed = ::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size());
  if (failed && !failed_) {
    log_error("the audit log cannot be written",
              {{"file", path_}, {"detail", std::strerror(errno)}});
  }
  failed_ = failed;
}

void AuditLog::reopen() {
  const std::lock_guard lock(mutex_);
  if (!path_.empty()) {
    const int file = open();
    ::close(std::exchange(file_, file));
  }
}

}  // namespace mcnb
