#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>

namespace mcnb {

// A file that takes its place only when it is whole and on the disk; until then, and where it never
// comes to that, nothing is at its path. Errors are Error (kSystem) and name the file.
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

// Brings what was written to the disk and closes the file. Throws Error (kSystem) where either
// fails; the file is closed in any case.
void close_safely(std::FILE* file, const std::filesystem::path& path);

// Opens a file as fopen does, or throws Error (kSystem).
std::FILE* open_file(const std::filesystem::path& path, const char* mode);

// Throws Error (kSystem).
void move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace mcnb
