#include "mcnb/base/state_file.h"

#include <fmt/core.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <ostream>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/state_frames.h"

namespace mcnb {
namespace {

using FrameHead = state_frames::Head;

static_assert(std::endian::native == std::endian::little, "states are stored little-endian");

constexpr std::uint64_t kLongestKind = 64;

std::uint64_t frame_checksum(std::span<const std::byte> frame, std::uint64_t number) {
  return state_frames::checksum({reinterpret_cast<const char*>(frame.data()), frame.size()},
                                number);
}

}  // namespace

StateWriter::StateWriter(std::ostream& out, std::string name, const StateHeader& header)
    : out_(out), name_(std::move(name)) {
  check(header.kind.size() <= kLongestKind, "the name of a state's kind is short");
  out_.write(state_frames::kMagic, sizeof state_frames::kMagic);
  frame_.reserve(state_frames::kMostBytes);
  write_string(header.kind);
  write(header.version);
}

void StateWriter::write_bytes(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const std::size_t part = std::min(count, state_frames::kMostBytes - frame_.size());
    frame_.insert(frame_.end(), from, from + part);
    from += part;
    count -= part;
    if (frame_.size() == state_frames::kMostBytes) {
      write_frame();
    }
  }
}

void StateWriter::write_frame() {
  const FrameHead head{frame_.size(), frame_checksum(frame_, frames_++)};
  out_.write(reinterpret_cast<const char*>(&head), sizeof head);
  out_.write(reinterpret_cast<const char*>(frame_.data()),
             static_cast<std::streamsize>(frame_.size()));
  if (!out_) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write (disk full?)", name_));
  }
  frame_.clear();
}

void StateWriter::finish() {
  if (!frame_.empty()) {
    write_frame();
  }
  write_frame();  // an empty frame ends the state
  out_.flush();
  if (!out_) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write (disk full?)", name_));
  }
}

StateReader::StateReader(std::istream& in, std::string name, const StateHeader& newest)
    : in_(in), name_(std::move(name)) {
  char magic[sizeof state_frames::kMagic];
  if (read_some(magic, sizeof magic) != sizeof magic ||
      std::memcmp(magic, state_frames::kMagic, sizeof magic) != 0) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: not a saved mcnb state (it does not start with its magic number)", name_));
  }
  const std::string kind = read_string(kLongestKind);
  if (kind != newest.kind) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: holds a {}, expected a {}", name_, kind, newest.kind));
  }
  version_ = read<std::uint32_t>();
  if (version_ == 0 || version_ > newest.version) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: {} version {}, this program reads versions 1 to {}", name_, kind,
                            version_, newest.version));
  }
}

void StateReader::fail(const std::string& what) const {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: damaged before byte {}: {}", name_, position_, what));
}

// Returns how many bytes were read: fewer than `count` only at the end.
std::size_t StateReader::read_some(void* bytes, std::size_t count) {
  in_.read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
  if (in_.bad()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot read after byte {}", name_, position_));
  }
  const auto got = static_cast<std::size_t>(in_.gcount());
  position_ += got;
  return got;
}

void StateReader::read_raw(void* bytes, std::size_t count) {
  if (read_some(bytes, count) != count) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: truncated: it ends at byte {}", name_, position_));
  }
}

// Reads the next frame; false if it is the end mark.
bool StateReader::next_frame() {
  FrameHead head;
  read_raw(&head, sizeof head);
  if (head.bytes > state_frames::kMostBytes) {
    fail("a frame is longer than 1 MiB");
  }
  frame_.resize(static_cast<std::size_t>(head.bytes));
  read_raw(frame_.data(), frame_.size());
  if (frame_checksum(frame_, frames_++) != head.checksum) {
    fail("a checksum does not match");
  }
  used_ = 0;
  ended_ = frame_.empty();
  return !ended_;
}

void StateReader::read_bytes(void* bytes, std::size_t count) {
  auto* to = static_cast<std::byte*>(bytes);
  while (count > 0) {
    if (used_ == frame_.size() && (ended_ || !next_frame())) {
      fail("the state ends too early");
    }
    const std::size_t part = std::min(count, frame_.size() - used_);
    std::memcpy(to, frame_.data() + used_, part);
    to += part;
    used_ += part;
    count -= part;
  }
}

void StateReader::finish() {
  if (used_ != frame_.size() || ended_ || next_frame()) {
    fail("more data follows the expected end");
  }
  if (in_.peek() != std::istream::traits_type::eof()) {
    fail("more bytes follow the end mark");
  }
}

void save_state_file(const std::filesystem::path& path, const StateHeader& header,
                     const std::function<void(StateWriter&)>& write) {
  FileWriter file(path);
  StateWriter writer(file.stream(), path.string(), header);
  write(writer);
  writer.finish();
  file.finish();
}

void load_state_file(const std::filesystem::path& path, const StateHeader& newest,
                     const std::function<void(StateReader&)>& read) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  }
  StateReader reader(in, path.string(), newest);
  read(reader);
  reader.finish();
}

}  // namespace mcnb
