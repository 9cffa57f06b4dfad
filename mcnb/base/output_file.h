#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>

namespace mcnb {

// A file that takes its place only when it is whole; until then, and where it never comes to that,
// nothing is at its path. Errors are Error (kSystem) and name the file.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
  std::FILE* file_;
};

// Throws Error (kSystem) where not all that was written can be; the file is closed in any case.
void close_file(std::FILE* file, const std::filesystem::path& path);

// Waits until the file, or the folder's list of files, is on the disk. Throws Error (kSystem).
void sync_to_disk(const std::filesystem::path& path);

// Opens a file as fopen does, or throws Error (kSystem).
std::FILE* open_file(const std::filesystem::path& path, const char* mode);

// Throws Error (kSystem).
void move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace mcnb
