#pragma once

#include <filesystem>

namespace mcnb {

// Holds a data folder, as long as it lives: for one server alone, or for several who only look.
class FolderLock {
 public:
  enum class Kind {
    kServe,  // makes the folder where it is missing
    kLook,   // needs no right to write; a folder that never had a server needs no lock
  };
  // Throws Error (kSystem) where another server has it, or the system refuses.
  FolderLock(const std::filesystem::path& folder, Kind kind);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace mcnb
