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

}  // namespace

FolderLock::FolderLock(const fs::path& folder, StorageAccess access) : path_(folder / "lock") {
  const bool looks = access == StorageAccess::kLook;
  if (!looks) {
    make_folder(folder);
  }
  file_ = ::open(path_.c_str(), (looks ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0600);
  if (file_ < 0 && looks && errno == ENOENT) {
    return;
  }
  if (file_ < 0) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot open: {}", path_.string(), std::strerror(errno)));
  }
  if (::flock(file_, (looks ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    ::close(file_);
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: another server has this data folder", folder.string()));
  }
}

FolderLock::~FolderLock() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

bool FolderLock::held() const {
  if (file_ < 0) {
    return !fs::exists(path_);
  }
  struct stat mine {};
  struct stat present {};
  return ::fstat(file_, &mine) == 0 && ::stat(path_.c_str(), &present) == 0 &&
         mine.st_dev == present.st_dev && mine.st_ino == present.st_ino;
}

}  // namespace mcnb
