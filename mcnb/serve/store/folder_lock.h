#pragma once

#include <filesystem>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// The lease of a data folder: a lock on its file `lock`. An owner excludes everybody else; any
// number of processes may look together.
class FolderLock : public Lease {
 public:
  // kOwn makes the folder if it is missing. kLook needs no right to write, and no lock in a folder
  // that never had an owner. Throws Error (kSystem) if the folder is in use or the system refuses.
  FolderLock(const std::filesystem::path& folder, StorageAccess access);
  ~FolderLock() override;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False once the file was removed or replaced: another process can then lock its successor.
  bool held() const override;

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace mcnb
