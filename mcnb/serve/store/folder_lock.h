#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// The lease of a data folder: locks that the kernel holds on the folder itself and on its file
// `lock`. An owner excludes everybody else; any number of processes may look together. Earlier
// versions locked only the file. The folder's lock cannot be removed, but file systems that lock no
// folders (NFS) leave only the file's.
class FolderLock : public Lease {
 public:
  // kOwn makes the folder if it is missing. kLook needs no right to write, and no file `lock` in a
  // folder that never had an owner. Throws Error (kSystem) if the folder is in use or the system
  // refuses.
  FolderLock(const std::filesystem::path& folder, StorageAccess access);
  ~FolderLock() override;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // From now on the lease is lost when this file of the folder is removed or replaced. `what` names
  // it for people. Requires that the file is there and is kept open by somebody, so that no other
  // file gets its number. Call it before other threads use the lease.
  void watch(const std::filesystem::path& file, const std::string& what);

  // Not empty once the folder, the file `lock` or a watched file was removed or replaced.
  std::string loss() const override;

 private:
  struct Watched {
    std::filesystem::path path;
    std::string what;
    dev_t device = 0;
    ino_t number = 0;
  };
  // Returns the open file, or -1 if `optional` and it is missing.
  int open_locked(const std::filesystem::path& path, int flags, bool optional);
  void close_files();

  std::filesystem::path folder_;
  StorageAccess access_;
  std::vector<int> files_;
  std::vector<Watched> watched_;
};

}  // namespace mcnb
