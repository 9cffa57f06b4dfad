#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Records what this process does to the files of a folder, in order, with the moments at which it
// was synced. The real files are written as always. file_recorder.cpp defines the functions of the
// C library that change files, so that it sees the calls of SQLite and of the C++ library, too.
namespace mcnb::power {

// Files and folders have numbers, which are never used twice. 0 is the recorded folder.
using FileNumber = std::uint32_t;

struct FileOperation {
  enum class Kind : std::uint8_t {
    kMakeFile,    // `file` appears in `folder` under `name`
    kMakeFolder,  // the same for a folder
    kWrite,       // `bytes` at `offset` of `file`
    kResize,      // `file` gets the size `offset`
    kRename,      // `file` moves from `folder`/`name` to `new_folder`/`new_name`
    kRemove,      // `file` disappears from `folder`
    kSync,        // what was done to `file` (of a folder: to its names) before is on the disk
  };
  Kind kind{};
  FileNumber file = 0;
  FileNumber folder = 0;
  std::string name;
  FileNumber new_folder = 0;
  std::string new_name;
  std::uint64_t offset = 0;  // kSync: the number of operations before the sync was asked for
  std::string bytes;
};

using Recording = std::vector<FileOperation>;

// Records from its construction to `end` or its destruction. Requires that the folder exists; what
// it holds already is recorded as made and synced. One at a time. Safe from many threads: an
// operation is recorded when it is done, but a sync counts for what was recorded before it began.
class FileRecorder {
 public:
  explicit FileRecorder(const std::filesystem::path& folder);
  ~FileRecorder();
  FileRecorder(const FileRecorder&) = delete;
  FileRecorder& operator=(const FileRecorder&) = delete;

  void end();

  // How many operations there were so far.
  std::size_t count() const;
  // Requires that nobody is working on the files.
  const Recording& recording() const { return operations_; }

  // For the replaced functions.
  struct Entry {
    bool recorded = false;  // whether the folder is one of the recorded
    FileNumber folder = 0;
    std::string name;
    bool exists = false;
    FileNumber file = 0;  // if it exists
  };
  Entry find(int folder, const char* path) const;
  void made(const Entry& entry, int folder, const char* path, FileOperation::Kind kind);
  void renamed(const Entry& from, const Entry& to);
  void removed(const Entry& entry);
  void wrote(int file, std::uint64_t offset, std::string_view bytes);
  void resized(int file, std::uint64_t size);
  void synced(int file, std::size_t asked);

 private:
  using Identity = std::pair<std::uint64_t, std::uint64_t>;  // device and number of the system

  void take_in(const std::filesystem::path& folder, FileNumber number);
  const FileNumber* number_of(int file) const;
  void drop(FileNumber file);

  mutable std::mutex mutex_;
  std::map<Identity, FileNumber> numbers_;
  FileNumber last_ = 0;
  Recording operations_;
};

// While it lives, this process waits for no disk: syncs return at once. Recorded ones count as
// done.
class WithoutSyncs {
 public:
  WithoutSyncs();
  ~WithoutSyncs();
  WithoutSyncs(const WithoutSyncs&) = delete;
  WithoutSyncs& operator=(const WithoutSyncs&) = delete;
};

}  // namespace mcnb::power
