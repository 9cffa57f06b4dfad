#include "mcnb/base/files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::error_code& error,
                       const char* what = "write") {
  throw Error(ErrorKind::kSystem,
              fmt::format("{}: cannot {}: {}", path.string(), what, error.message()));
}

[[noreturn]] void fail_by_errno(const std::filesystem::path& path) {
  fail(path, {errno, std::generic_category()});
}

constexpr std::size_t kMostUnsynced = std::size_t{32} << 20;

// The process id keeps processes apart that write the same file at the same time.
std::filesystem::path temporary_for(std::filesystem::path path) {
  return path += fmt::format(".{}.part", ::getpid());
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

FileWriter::FileWriter(const std::filesystem::path& path, FileAccess access)
    : path_(path),
      temporary_(temporary_for(path)),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                   access == FileAccess::kOwner ? 0600 : 0666)) {
  if (file_ < 0) {
    fail_by_errno(path_);
  }
  stream_.exceptions(std::ios::badbit);  // lets errors of write() through
}

FileWriter::~FileWriter() {
  if (file_ >= 0) {
    ::close(file_);
  }
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void FileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min(bytes.size(), kMostUnsynced));
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      unsynced_ += static_cast<std::size_t>(written);
      if (unsynced_ >= kMostUnsynced) {
        unsynced_ = 0;
        if (::fsync(file_) != 0) {
          fail_by_errno(path_);
        }
      }
    } else if (errno != EINTR) {
      fail_by_errno(path_);
    }
  }
}

void FileWriter::finish() {
  if (::fsync(file_) != 0 || ::close(std::exchange(file_, -1)) != 0) {
    fail_by_errno(path_);
  }
  move_file(temporary_, path_);
  sync_to_disk(folder_of(path_));
}

FileWriter::Buffer::int_type FileWriter::Buffer::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) {
    const char byte = traits_type::to_char_type(c);
    writer_.write({&byte, 1});
  }
  return traits_type::not_eof(c);
}

std::streamsize FileWriter::Buffer::xsputn(const char* bytes, std::streamsize count) {
  writer_.write({bytes, static_cast<std::size_t>(count)});
  return count;
}

void write_file(const std::filesystem::path& path, std::string_view bytes, FileAccess access) {
  try {
    make_folder(folder_of(path));
  } catch (const Error&) {
    // The file cannot be opened then, and that error names the file.
  }
  FileWriter file(path, access);
  file.write(bytes);
  file.finish();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  for (std::filesystem::path folder = path.lexically_normal();
       !folder.empty() && !std::filesystem::exists(folder, error); folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  // From the top down: each one is on the disk before the next is made.
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    std::filesystem::create_directory(*folder, error);
    if (error) {
      fail(path, error);
    }
    sync_entry(*folder);
  }
  if (!std::filesystem::is_directory(path, error)) {
    fail(path, error ? error : std::make_error_code(std::errc::not_a_directory));
  }
}

void sync_entry(const std::filesystem::path& path) {
  // "folder/" names the same file as "folder".
  const std::filesystem::path own = path.has_filename() ? path : path.parent_path();
  if (::access(folder_of(own).c_str(), R_OK) == 0) {
    sync_to_disk(folder_of(own));
  }
}

void sync_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail_by_errno(path);
  }
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error != 0) {
    fail(path, {error, std::generic_category()});
  }
}

void copy_whole_file(const std::filesystem::path& from, const std::filesystem::path& to,
                     FileAccess access) {
  const int file = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail(from, {errno, std::generic_category()}, "read");
  }
  const std::unique_ptr<const int, decltype([](const int* open) { ::close(*open); })> closer(&file);
  FileWriter copy(to, access);
  std::string bytes(std::size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count > 0) {
      copy.write(std::string_view(bytes).substr(0, static_cast<std::size_t>(count)));
    } else if (count == 0) {
      break;
    } else if (errno != EINTR) {
      fail(from, {errno, std::generic_category()}, "read");
    }
  }
  copy.finish();
}

void move_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) {
    fail(to, error);
  }
}

}  // namespace mcnb
