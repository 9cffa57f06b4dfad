// A library for LD_PRELOAD that makes calls of the operating system fail, as on a broken or full
// disk. It looks only at files below the folder MCNB_FAIL_FOLDER. Quiet stretches alternate with
// storms in which every third call fails; lengths, calls and errors are drawn by MCNB_FAIL_SEED.
// After MCNB_FAIL_CALLS calls everything works again.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

std::uint64_t number_in(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

const char* watched_folder() {
  static const char* const folder = std::getenv("MCNB_FAIL_FOLDER");
  return folder;
}

bool is_watched(const char* path) {
  const char* const folder = watched_folder();
  return folder != nullptr && path != nullptr &&
         std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool is_watched(int file) {
  if (watched_folder() == nullptr) {
    return false;
  }
  char link[64];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) {
    return false;
  }
  path[length] = '\0';
  return is_watched(path);
}

// SplitMix64 of the number of the call: threads may come in any order.
std::uint64_t mixed(std::uint64_t number) {
  std::uint64_t z = number + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Whether the next call of a watched file fails; sets errno if it does.
bool fails(std::initializer_list<int> errors) {
  static const std::uint64_t seed = number_in("MCNB_FAIL_SEED", 1);
  static const std::uint64_t all = number_in("MCNB_FAIL_CALLS", 0);
  static const std::uint64_t quiet = 20 + mixed(seed) % 300;
  static const std::uint64_t storm = 1 + mixed(seed + 1) % 60;
  static std::atomic<std::uint64_t> calls{0};
  const std::uint64_t call = calls.fetch_add(1);
  if (call >= all || call % (quiet + storm) < quiet) {
    return false;
  }
  const std::uint64_t drawn = mixed(mixed(seed) + call);
  if (drawn % 3 != 0) {
    return false;
  }
  errno = errors.begin()[drawn / 3 % errors.size()];
  return true;
}

template <class Call>
Call* original(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

#define MCNB_OPEN(name)                                     \
  int name(const char* path, int flags, ...) {              \
    using Open = int(const char*, int, ...);                \
    static Open* const real = original<Open>(#name);        \
    mode_t mode = 0;                                        \
    if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {           \
      va_list rest;                                         \
      va_start(rest, flags);                                \
      mode = va_arg(rest, mode_t);                          \
      va_end(rest);                                         \
    }                                                       \
    if (is_watched(path) && fails({EIO, EMFILE, ENOSPC})) { \
      return -1;                                            \
    }                                                       \
    return real(path, flags, mode);                         \
  }
MCNB_OPEN(open)
MCNB_OPEN(open64)

#define MCNB_ON_FILE(result, name, errors, parameters, arguments) \
  result name parameters {                                        \
    using Call = result parameters;                               \
    static Call* const real = original<Call>(#name);              \
    if (is_watched(file) && fails errors) {                       \
      return -1;                                                  \
    }                                                             \
    return real arguments;                                        \
  }
MCNB_ON_FILE(int, fsync, ({EIO}), (int file), (file))
MCNB_ON_FILE(int, fdatasync, ({EIO}), (int file), (file))
MCNB_ON_FILE(int, ftruncate, ({EIO, ENOSPC}), (int file, off_t size), (file, size))
MCNB_ON_FILE(int, ftruncate64, ({EIO, ENOSPC}), (int file, off64_t size), (file, size))
MCNB_ON_FILE(ssize_t, pread, ({EIO}), (int file, void* to, size_t size, off_t at),
             (file, to, size, at))
MCNB_ON_FILE(ssize_t, pread64, ({EIO}), (int file, void* to, size_t size, off64_t at),
             (file, to, size, at))
MCNB_ON_FILE(ssize_t, writev, ({EIO, ENOSPC}), (int file, const iovec* from, int count),
             (file, from, count))

// Writes may also be cut short: a half is written, and the next one fails or goes on.
#define MCNB_WRITE(name, parameters, arguments)        \
  ssize_t name parameters {                            \
    using Call = ssize_t parameters;                   \
    static Call* const real = original<Call>(#name);   \
    if (is_watched(file) && fails({EIO, ENOSPC, 0})) { \
      if (errno != 0 || size < 2) {                    \
        errno = errno == 0 ? ENOSPC : errno;           \
        return -1;                                     \
      }                                                \
      size /= 2;                                       \
    }                                                  \
    return real arguments;                             \
  }
MCNB_WRITE(write, (int file, const void* from, size_t size), (file, from, size))
MCNB_WRITE(pwrite, (int file, const void* from, size_t size, off_t at), (file, from, size, at))
MCNB_WRITE(pwrite64, (int file, const void* from, size_t size, off64_t at), (file, from, size, at))

#define MCNB_ON_PATH(name, errors, parameters, arguments) \
  int name parameters {                                   \
    using Call = int parameters;                          \
    static Call* const real = original<Call>(#name);      \
    if (is_watched(path) && fails errors) {               \
      return -1;                                          \
    }                                                     \
    return real arguments;                                \
  }
MCNB_ON_PATH(rename, ({EIO, ENOSPC}), (const char* path, const char* to), (path, to))
MCNB_ON_PATH(unlink, ({EIO, EACCES}), (const char* path), (path))
MCNB_ON_PATH(mkdir, ({EIO, ENOSPC}), (const char* path, mode_t mode), (path, mode))

}  // extern "C"
