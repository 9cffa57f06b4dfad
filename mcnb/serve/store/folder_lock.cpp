#include "mcnb/serve/store/folder_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot make the folder: {}", folder.string(), problem.message()));
  }
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, Kind kind) {
  const bool looks = kind == Kind::kLook;
  if (!looks) {
    make_folder(folder);
  }
  const fs::path path = folder / "lock";
  file_ = ::open(path.c_str(), (looks ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0600);
  if (file_ < 0 && looks && errno == ENOENT) {
    return;
  }
  if (file_ < 0) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
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

}  // namespace mcnb
