#include "mcnb/serve/store/folder_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const char* what, int reason) {
  throw Error(ErrorKind::kSystem,
              fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(reason)));
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, StorageAccess access)
    : folder_(folder), access_(access) {
  const bool looks = access == StorageAccess::kLook;
  if (!looks) {
    make_folder(folder);
    // A crash may have come between the making of the folder and this sync.
    sync_entry(folder);
  }
  try {
    open_locked(folder, O_RDONLY | O_DIRECTORY, false);
    watch(folder, "the data folder");
    const fs::path lock = folder / "lock";
    if (open_locked(lock, looks ? O_RDONLY : O_RDWR | O_CREAT, looks) >= 0) {
      watch(lock, "the lock of the data folder");
    }
  } catch (const Error&) {
    close_files();
    throw;
  }
}

FolderLock::~FolderLock() { close_files(); }

void FolderLock::close_files() {
  for (const int file : files_) {
    ::close(file);
  }
}

int FolderLock::open_locked(const fs::path& path, int flags, bool optional) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (file < 0) {
    if (optional && errno == ENOENT) {
      return -1;
    }
    refuse(path, "open", errno);
  }
  files_.push_back(file);
  const bool looks = access_ == StorageAccess::kLook;
  if (::flock(file, (looks ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: {}", folder_.string(),
                              looks ? "a server has this data folder: stop it, or look at a backup "
                                      "instead (POST /v1/backup makes one while it runs)"
                                    : "another server has this data folder"));
    }
    if ((flags & O_DIRECTORY) == 0) {
      refuse(path, "lock", errno);
    }
  }
  return file;
}

void FolderLock::watch(const fs::path& file, const std::string& what) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) {
    refuse(file, "look at", errno);
  }
  watched_.push_back({file, what, found.st_dev, found.st_ino});
}

std::string FolderLock::loss() const {
  for (const Watched& own : watched_) {
    struct stat found {};
    if (::stat(own.path.c_str(), &found) != 0 || found.st_dev != own.device ||
        found.st_ino != own.number) {
      return fmt::format(
          "{}: {} was removed or replaced, so another server may have it, and what is written may "
          "be lost: put back what was there, or stop the servers and start one again",
          own.path.string(), own.what);
    }
  }
  return "";
}

}  // namespace mcnb
