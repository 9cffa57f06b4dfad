#include "mcnb/data/formats/input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::byte> bytes) : size_(bytes.size()), rest_(bytes) {}

  std::size_t read(char* bytes, std::size_t count) override {
    const std::span<const std::byte> taken = rest_.first(std::min(count, rest_.size()));
    std::copy(taken.begin(), taken.end(), reinterpret_cast<std::byte*>(bytes));
    rest_ = rest_.subspan(taken.size());
    return taken.size();
  }

  double progress() const override { return share(size_ - rest_.size(), size_); }

 private:
  std::size_t size_;
  std::span<const std::byte> rest_;
};

class FileStream : public ByteStream {
 public:
  explicit FileStream(const std::filesystem::path& path) : name_(path.string()) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
      fail("open", errno);
    }
    struct ::stat about {};
    if (::fstat(file_, &about) == 0 && S_ISREG(about.st_mode)) {
      size_ = static_cast<std::uint64_t>(about.st_size);
    }
    // Only a hint: reading is slower if the system ignores it.
    static_cast<void>(::posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL));
  }
  ~FileStream() override { ::close(file_); }
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  std::size_t read(char* bytes, std::size_t count) override {
    std::size_t done = 0;
    while (done < count) {
      const ::ssize_t got = ::read(file_, bytes + done, count - done);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        fail("read", errno);
      }
      if (got == 0) {
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    position_ += done;
    return done;
  }

  double progress() const override { return share(position_, size_); }

 private:
  [[noreturn]] void fail(std::string_view what, int error) const {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot {}: {}", name_, what,
                                                std::generic_category().message(error)));
  }

  std::string name_;
  int file_;
  std::uint64_t size_ = 0;  // 0: not known
  std::uint64_t position_ = 0;
};

// A stream of bytes that were read ahead, followed by the rest.
class PeekedStream : public ByteStream {
 public:
  PeekedStream(std::string head, std::unique_ptr<ByteStream> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}

  std::size_t read(char* bytes, std::size_t count) override {
    const std::size_t first = std::min(count, head_.size() - used_);
    std::copy_n(head_.data() + used_, first, bytes);
    used_ += first;
    return first == count ? count : first + rest_->read(bytes + first, count - first);
  }

  double progress() const override { return rest_->progress(); }

 private:
  std::string head_;
  std::size_t used_ = 0;
  std::unique_ptr<ByteStream> rest_;
};

// Reads one gzip member after the other, as gzip does. Zero bytes after the last member, as tapes
// add them, are ignored; anything else there is an error.
class GzipStream : public ByteStream {
 public:
  GzipStream(std::string name, std::unique_ptr<ByteStream> compressed)
      : name_(std::move(name)), compressed_(std::move(compressed)), buffer_(kBuffer) {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&state_, MAX_WBITS + kGzipOnly) != Z_OK) {
      throw Error(ErrorKind::kLimit, name_ + ": no memory to decompress it");
    }
  }
  ~GzipStream() override { ::inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(char* bytes, std::size_t count) override {
    std::size_t done = 0;
    while (done < count && !ended_) {
      constexpr std::size_t kMost = std::size_t{1} << 30;
      const std::size_t wanted = std::min(count - done, kMost);
      state_.next_out = reinterpret_cast<Bytef*>(bytes + done);
      state_.avail_out = static_cast<uInt>(wanted);
      inflate_some();
      done += wanted - state_.avail_out;
    }
    return done;
  }

  double progress() const override { return compressed_->progress(); }

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 18;

  void inflate_some() {
    if (state_.avail_in == 0 && !refill()) {
      fail("it ends within the compressed data");
    }
    const int result = ::inflate(&state_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      start_next_member();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(state_.msg == nullptr ? "it is damaged" : state_.msg);
    }
  }

  void start_next_member() {
    while ((state_.avail_in > 0 || refill()) && *state_.next_in == 0) {
      ++state_.next_in;
      --state_.avail_in;
    }
    ended_ = state_.avail_in == 0;
    if (!ended_ && ::inflateReset(&state_) != Z_OK) {
      fail("it is damaged");
    }
  }

  bool refill() {
    const std::size_t got = compressed_->read(buffer_.data(), buffer_.size());
    state_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    state_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected data compressed by gzip, but {}", name_, why));
  }

  std::string name_;
  std::unique_ptr<ByteStream> compressed_;
  std::vector<char> buffer_;
  ::z_stream state_{};
  bool ended_ = false;
};

constexpr std::size_t kHead = 6;
constexpr std::string_view kGzip = "\x1f\x8b";

// Archives that people download and forget to unpack.
struct Packed {
  std::string_view magic;
  std::string_view name;
};
constexpr std::array<Packed, 5> kPacked = {{{"PK\x03\x04", "a zip archive"},
                                            {"BZh", "data compressed by bzip2"},
                                            {"\xfd"
                                             "7zXZ",
                                             "data compressed by xz"},
                                            {"\x28\xb5\x2f\xfd", "data compressed by zstd"},
                                            {"7z\xbc\xaf\x27", "a 7z archive"}}};

}  // namespace

Input Input::file(const std::filesystem::path& path) {
  Input input;
  input.name_ = path.string();
  input.path_ = path;
  return input;
}

Input Input::memory(std::string name, std::span<const std::byte> bytes) {
  Input input;
  input.name_ = std::move(name);
  input.bytes_ = bytes;
  input.in_memory_ = true;
  return input;
}

std::unique_ptr<ByteStream> Input::open() const {
  std::unique_ptr<ByteStream> raw;
  if (in_memory_) {
    raw = std::make_unique<MemoryStream>(bytes_);
  } else {
    raw = std::make_unique<FileStream>(path_);
  }
  std::string head(kHead, '\0');
  head.resize(raw->read(head.data(), head.size()));
  for (const Packed& packed : kPacked) {
    if (head.starts_with(packed.magic)) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected plain data or gzip, found {}: unpack it first", name_,
                              packed.name));
    }
  }
  const bool compressed = head.starts_with(kGzip);
  auto whole = std::make_unique<PeekedStream>(std::move(head), std::move(raw));
  if (compressed) {
    return std::make_unique<GzipStream>(name_, std::move(whole));
  }
  return whole;
}

}  // namespace mcnb
