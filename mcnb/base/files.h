#pragma once

#include <cstddef>
#include <filesystem>
#include <ostream>
#include <streambuf>
#include <string_view>

namespace mcnb {

// All functions here throw Error (kSystem), which names the file and the system's reason.

enum class FileAccess {
  kEveryone,  // as the process's umask allows
  kOwner,     // only the owner may read and write
};

// Writes a file that appears whole or not at all. The bytes go to a temporary file beside `path`
// whose name ends in ".part". They are synced now and then: a sync of gigabytes at once would hold
// up those of other files. finish() syncs the rest, renames the file to `path` and syncs the
// folder. Without finish() the temporary file is removed, and an old file at `path` stays as it
// was.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path, FileAccess access = FileAccess::kEveryone);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);

  // A stream without a buffer that passes everything to write(), and passes its errors on.
  std::ostream& stream() { return stream_; }

  void finish();

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(FileWriter& writer) : writer_(writer) {}

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* bytes, std::streamsize count) override;

   private:
    FileWriter& writer_;
  };

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_;
  std::size_t unsynced_ = 0;  // bytes written since the last sync
  Buffer buffer_{*this};
  std::ostream stream_{&buffer_};
};

// Writes a whole file by FileWriter. Makes missing folders.
void write_file(const std::filesystem::path& path, std::string_view bytes,
                FileAccess access = FileAccess::kEveryone);

// Makes the folder and its parents unless they exist. Those that it makes are on the disk when it
// returns.
void make_folder(const std::filesystem::path& path);

// Waits until the file's bytes, or the folder's list of files, are on the disk.
void sync_to_disk(const std::filesystem::path& path);

// Waits until it is on the disk that a file or folder of this name is, or is not, in its folder.
// Does nothing if this process may not read the folder.
void sync_entry(const std::filesystem::path& path);

// Writes a copy by FileWriter.
void copy_whole_file(const std::filesystem::path& from, const std::filesystem::path& to,
                     FileAccess access = FileAccess::kEveryone);

// Renames `from` to `to`, which it replaces. To make it durable, sync the folder.
void move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace mcnb
