#include "mcnb/serve/http/uploads.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/service_error.h"
#include "mcnb/serve/http/identifiers.h"

namespace mcnb {
namespace {

constexpr std::string_view kPrefix = "upload:";
constexpr std::chrono::hours kUploadLife{1};

// A file without a name in any folder.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("upload", MFD_CLOEXEC)) {
    while (file_ >= 0 && !bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        break;
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    if (file_ < 0 || !bytes.empty()) {
      const std::string why = std::generic_category().message(errno);
      close();
      throw Error(ErrorKind::kSystem, fmt::format("no memory for an upload: {}", why));
    }
  }
  ~MemoryFile() { close(); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  void close() const {
    if (file_ >= 0) {
      ::close(file_);
    }
  }

  int file_;
};

}  // namespace

bool Uploads::is_name(std::string_view name) { return name.starts_with(kPrefix); }

void Uploads::drop_old() {
  const Time now = std::chrono::steady_clock::now();
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.end <= now; });
}

std::string Uploads::add(std::string_view bytes) {
  if (bytes.empty()) {
    refuse_request(ErrorCode::kBadField, "expected a saved policy or a log in the body", "body");
  }
  const std::lock_guard lock(mutex_);
  drop_old();
  std::size_t held = bytes.size();
  for (const auto& [name, entry] : entries_) {
    held += entry.file.bytes;
  }
  if (held > kMostBytes) {
    refuse_request(ErrorCode::kMemoryFull,
                   fmt::format("uploads take at most {} bytes together: remove one, or wait until "
                               "their hour is over",
                               kMostBytes));
  }
  const auto memory = std::make_shared<MemoryFile>(bytes);
  const std::string name = std::string(kPrefix) + random_id();
  entries_[name] = {{memory->path(), "the upload", bytes.size(), memory},
                    std::chrono::steady_clock::now() + kUploadLife};
  return name;
}

std::optional<StartFile> Uploads::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  drop_old();
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::nullopt : std::optional(found->second.file);
}

bool Uploads::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return entries_.erase(name) > 0;
}

}  // namespace mcnb
