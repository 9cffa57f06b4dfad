#include "mcnb/base/output_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what, int error) {
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot {}: {}", path.string(), what,
                                              std::generic_category().message(error)));
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), part_(path.string() + ".part"), file_(open_file(part_, "wb")) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr) {
    std::fclose(file_);
  }
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    fail(part_, "write", errno);
  }
}

void OutputFile::finish() {
  close_file(std::exchange(file_, nullptr), part_);
  move_file(part_, path_);
}

void close_file(std::FILE* file, const std::filesystem::path& path) {
  const bool was_fine = std::ferror(file) == 0;
  if (std::fclose(file) != 0 || !was_fine) {
    fail(path, "write", errno);
  }
}

void sync_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail(path, "open", errno);
  }
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error != 0) {
    fail(path, "write to the disk", error);
  }
}

std::FILE* open_file(const std::filesystem::path& path, const char* mode) {
  std::FILE* const file = std::fopen(path.c_str(), mode);
  if (file == nullptr) {
    fail(path, "open", errno);
  }
  return file;
}

void move_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", to.string(), error.message()));
  }
}

}  // namespace mcnb
