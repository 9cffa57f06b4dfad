#include "tests/serve/power/file_recorder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "mcnb/base/check.h"
#include "tests/temporary_folder.h"

namespace mcnb::power {
namespace {

std::atomic<FileRecorder*> active{nullptr};
std::atomic<int> without_syncs{0};

std::pair<std::uint64_t, std::uint64_t> identity_of(const struct stat& found) {
  return {found.st_dev, found.st_ino};
}

}  // namespace

FileRecorder::FileRecorder(const std::filesystem::path& folder) {
  struct stat found {};
  check(::stat(folder.c_str(), &found) == 0, "the recorded folder exists");
  numbers_[identity_of(found)] = 0;
  take_in(folder, 0);
  check(active.exchange(this) == nullptr, "one recorder at a time");
}

void FileRecorder::take_in(const std::filesystem::path& folder, FileNumber number) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    const bool is_folder = entry.is_directory();
    made({.recorded = true, .folder = number, .name = path.filename().string()}, AT_FDCWD,
         path.c_str(),
         is_folder ? FileOperation::Kind::kMakeFolder : FileOperation::Kind::kMakeFile);
    const FileNumber own = last_;
    if (is_folder) {
      take_in(path, own);
    } else {
      operations_.push_back(
          {.kind = FileOperation::Kind::kWrite, .file = own, .bytes = file_contents(path)});
      operations_.push_back(
          {.kind = FileOperation::Kind::kSync, .file = own, .offset = operations_.size()});
    }
  }
  operations_.push_back(
      {.kind = FileOperation::Kind::kSync, .file = number, .offset = operations_.size()});
}

FileRecorder::~FileRecorder() { end(); }

void FileRecorder::end() {
  FileRecorder* self = this;
  active.compare_exchange_strong(self, nullptr);
}

std::size_t FileRecorder::count() const {
  const std::lock_guard lock(mutex_);
  return operations_.size();
}

// Null for a file that does not belong to the folder. Requires the mutex.
const FileNumber* FileRecorder::number_of(int file) const {
  struct stat found {};
  if (::fstat(file, &found) != 0) {
    return nullptr;
  }
  const auto known = numbers_.find(identity_of(found));
  return known == numbers_.end() ? nullptr : &known->second;
}

FileRecorder::Entry FileRecorder::find(int folder, const char* path) const {
  std::string whole = path;
  while (whole.size() > 1 && whole.back() == '/') {
    whole.pop_back();
  }
  const std::size_t slash = whole.rfind('/');
  const std::string above = slash == std::string::npos ? "." : whole.substr(0, slash + 1);
  Entry entry;
  entry.name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  const std::lock_guard lock(mutex_);
  struct stat found {};
  if (::fstatat(folder, above.c_str(), &found, 0) != 0) {
    return entry;
  }
  const auto known = numbers_.find(identity_of(found));
  if (known == numbers_.end()) {
    return entry;
  }
  entry.recorded = true;
  entry.folder = known->second;
  if (::fstatat(folder, path, &found, AT_SYMLINK_NOFOLLOW) == 0) {
    const auto own = numbers_.find(identity_of(found));
    check(own != numbers_.end(), "the recorder saw every file being made");
    entry.exists = true;
    entry.file = own->second;
  }
  return entry;
}

void FileRecorder::made(const Entry& entry, int folder, const char* path,
                        FileOperation::Kind kind) {
  const std::lock_guard lock(mutex_);
  struct stat found {};
  check(::fstatat(folder, path, &found, AT_SYMLINK_NOFOLLOW) == 0, "what was made is there");
  numbers_[identity_of(found)] = ++last_;
  operations_.push_back({.kind = kind, .file = last_, .folder = entry.folder, .name = entry.name});
}

void FileRecorder::renamed(const Entry& from, const Entry& to) {
  const std::lock_guard lock(mutex_);
  check(to.recorded, "nothing is moved out of the recorded folder");
  operations_.push_back({.kind = FileOperation::Kind::kRename,
                         .file = from.file,
                         .folder = from.folder,
                         .name = from.name,
                         .new_folder = to.folder,
                         .new_name = to.name});
  if (to.exists) {
    drop(to.file);
  }
}

// The system may give the number of a file that is gone to another one. Requires the mutex.
void FileRecorder::drop(FileNumber file) {
  std::erase_if(numbers_, [&](const auto& known) { return known.second == file; });
}

void FileRecorder::removed(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  operations_.push_back({.kind = FileOperation::Kind::kRemove,
                         .file = entry.file,
                         .folder = entry.folder,
                         .name = entry.name});
  drop(entry.file);
}

void FileRecorder::wrote(int file, std::uint64_t offset, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (const FileNumber* number = number_of(file)) {
    operations_.push_back({.kind = FileOperation::Kind::kWrite,
                           .file = *number,
                           .offset = offset,
                           .bytes = std::string(bytes)});
  }
}

void FileRecorder::resized(int file, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (const FileNumber* number = number_of(file)) {
    operations_.push_back({.kind = FileOperation::Kind::kResize, .file = *number, .offset = size});
  }
}

void FileRecorder::synced(int file, std::size_t asked) {
  const std::lock_guard lock(mutex_);
  if (const FileNumber* number = number_of(file)) {
    operations_.push_back({.kind = FileOperation::Kind::kSync, .file = *number, .offset = asked});
  }
}

WithoutSyncs::WithoutSyncs() { ++without_syncs; }
WithoutSyncs::~WithoutSyncs() { --without_syncs; }

namespace {

using Kind = FileOperation::Kind;

// The function of the C library that this file replaces.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <class Call>
int open_recorded(int folder, const char* path, int flags, Call call) {
  FileRecorder* const recorder = active;
  if (recorder == nullptr || (flags & (O_CREAT | O_TRUNC)) == 0) {
    return call();
  }
  const FileRecorder::Entry entry = recorder->find(folder, path);
  const int file = call();
  const int problem = errno;
  if (file >= 0 && entry.recorded) {
    if (!entry.exists) {
      recorder->made(entry, folder, path, Kind::kMakeFile);
    } else if ((flags & O_TRUNC) != 0) {
      recorder->resized(file, 0);
    }
  }
  errno = problem;
  return file;
}

template <class Call>
ssize_t write_recorded(int file, const void* bytes, off64_t offset, Call call) {
  const ssize_t written = call();
  FileRecorder* const recorder = active;
  if (recorder != nullptr && written > 0) {
    const int problem = errno;
    // Without an offset, the bytes lie before the place where the file now stands.
    const off64_t from = offset >= 0 ? offset : ::lseek64(file, 0, SEEK_CUR) - written;
    if (from >= 0) {
      recorder->wrote(file, static_cast<std::uint64_t>(from),
                      {static_cast<const char*>(bytes), static_cast<std::size_t>(written)});
    }
    errno = problem;
  }
  return written;
}

template <class Call>
int resize_recorded(int file, off64_t size, Call call) {
  const int result = call();
  FileRecorder* const recorder = active;
  if (recorder != nullptr && result == 0) {
    recorder->resized(file, static_cast<std::uint64_t>(size));
  }
  return result;
}

template <class Call>
int sync_recorded(int file, Call call) {
  FileRecorder* const recorder = active;
  const std::size_t asked = recorder == nullptr ? 0 : recorder->count();
  const int result = without_syncs > 0 ? 0 : call();
  if (recorder != nullptr && result == 0) {
    recorder->synced(file, asked);
  }
  return result;
}

template <class Call>
int remove_recorded(int folder, const char* path, Call call) {
  FileRecorder* const recorder = active;
  if (recorder == nullptr) {
    return call();
  }
  const FileRecorder::Entry entry = recorder->find(folder, path);
  const int result = call();
  if (result == 0 && entry.recorded) {
    recorder->removed(entry);
  }
  return result;
}

template <class Call>
int rename_recorded(const char* from, const char* to, Call call) {
  FileRecorder* const recorder = active;
  if (recorder == nullptr) {
    return call();
  }
  const FileRecorder::Entry source = recorder->find(AT_FDCWD, from);
  const FileRecorder::Entry target = recorder->find(AT_FDCWD, to);
  const int result = call();
  if (result == 0 && source.recorded) {
    recorder->renamed(source, target);
  }
  return result;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace mcnb::power

// What stands in for the C library. Every function calls the real one and records what it did.
using namespace mcnb::power;

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const call = real<int(const char*, int, mode_t)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded(AT_FDCWD, path, flags, [&] { return call(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  static auto* const call = real<int(const char*, int, mode_t)>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded(AT_FDCWD, path, flags, [&] { return call(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  static auto* const call = real<int(int, const char*, int, mode_t)>("openat");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded(folder, path, flags, [&] { return call(folder, path, flags, mode); });
}

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const call = real<ssize_t(int, const void*, size_t)>("write");
  return write_recorded(file, bytes, -1, [&] { return call(file, bytes, count); });
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static auto* const call = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_recorded(file, bytes, offset, [&] { return call(file, bytes, count, offset); });
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t offset) {
  static auto* const call = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return write_recorded(file, bytes, offset, [&] { return call(file, bytes, count, offset); });
}

int ftruncate(int file, off_t size) noexcept {
  static auto* const call = real<int(int, off_t)>("ftruncate");
  return resize_recorded(file, size, [&] { return call(file, size); });
}

int ftruncate64(int file, off64_t size) noexcept {
  static auto* const call = real<int(int, off64_t)>("ftruncate64");
  return resize_recorded(file, size, [&] { return call(file, size); });
}

int fsync(int file) {
  static auto* const call = real<int(int)>("fsync");
  return sync_recorded(file, [&] { return call(file); });
}

int fdatasync(int file) {
  static auto* const call = real<int(int)>("fdatasync");
  return sync_recorded(file, [&] { return call(file); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const call = real<int(const char*, mode_t)>("mkdir");
  FileRecorder* const recorder = active;
  if (recorder == nullptr) {
    return call(path, mode);
  }
  const FileRecorder::Entry entry = recorder->find(AT_FDCWD, path);
  const int result = call(path, mode);
  if (result == 0 && entry.recorded) {
    recorder->made(entry, AT_FDCWD, path, Kind::kMakeFolder);
  }
  return result;
}

int unlink(const char* path) noexcept {
  static auto* const call = real<int(const char*)>("unlink");
  return remove_recorded(AT_FDCWD, path, [&] { return call(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const call = real<int(int, const char*, int)>("unlinkat");
  return remove_recorded(folder, path, [&] { return call(folder, path, flags); });
}

int rmdir(const char* path) noexcept {
  static auto* const call = real<int(const char*)>("rmdir");
  return remove_recorded(AT_FDCWD, path, [&] { return call(path); });
}

int remove(const char* path) noexcept {
  static auto* const call = real<int(const char*)>("remove");
  return remove_recorded(AT_FDCWD, path, [&] { return call(path); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const call = real<int(const char*, const char*)>("rename");
  return rename_recorded(from, to, [&] { return call(from, to); });
}
}
