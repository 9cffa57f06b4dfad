#include "mcnb/data/formats/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <exception>
#include <utility>

#include "mcnb/base/error.h"

namespace mcnb {

// The state that libarchive's callbacks get.
struct TarReader::State {
  State(const Input& input) : name(input.name()), bytes(input.open()), buffer(kBuffer) {
    archive = ::archive_read_new();
    if (archive == nullptr) {
      throw Error(ErrorKind::kLimit, name + ": no memory to read the archive");
    }
  }
  ~State() { ::archive_read_free(archive); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static ::la_ssize_t give(::archive*, void* state, const void** bytes) {
    auto& self = *static_cast<State*>(state);
    try {
      *bytes = self.buffer.data();
      return static_cast<::la_ssize_t>(self.bytes->read(self.buffer.data(), self.buffer.size()));
    } catch (...) {
      self.fault = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  [[noreturn]] void fail() const {
    if (fault) {
      std::rethrow_exception(fault);
    }
    const char* const why = ::archive_error_string(archive);
    throw Error(ErrorKind::kInput, fmt::format("{}: expected a tar archive, but it cannot be read: "
                                               "{}",
                                               name, why == nullptr ? "it is damaged" : why));
  }

  static constexpr std::size_t kBuffer = std::size_t{1} << 16;

  std::string name;
  std::unique_ptr<ByteStream> bytes;
  std::vector<char> buffer;
  std::exception_ptr fault;  // thrown while libarchive was reading
  ::archive* archive;
};

TarReader::TarReader(const Input& input) : state_(std::make_unique<State>(input)) {
  ::archive_read_support_format_tar(state_->archive);
  if (::archive_read_open(state_->archive, state_.get(), nullptr, State::give, nullptr) !=
      ARCHIVE_OK) {
    state_->fail();
  }
}

TarReader::~TarReader() = default;

std::optional<std::string> TarReader::next() {
  for (;;) {
    ::archive_entry* entry = nullptr;
    const int result = ::archive_read_next_header(state_->archive, &entry);
    if (result == ARCHIVE_EOF) {
      return std::nullopt;
    }
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
      state_->fail();
    }
    // A path that the current locale cannot represent has no name here, and is skipped.
    const char* const path = ::archive_entry_pathname(entry);
    if (path != nullptr && ::archive_entry_filetype(entry) == AE_IFREG) {
      return path;
    }
  }
}

std::vector<std::uint8_t> TarReader::contents(std::size_t most) {
  std::vector<std::uint8_t> bytes;
  for (;;) {
    const void* block = nullptr;
    std::size_t size = 0;
    ::la_int64_t offset = 0;
    const int result = ::archive_read_data_block(state_->archive, &block, &size, &offset);
    if (result == ARCHIVE_EOF) {
      return bytes;
    }
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
      state_->fail();
    }
    if (size > most - bytes.size() || std::cmp_not_equal(offset, bytes.size())) {
      return {};
    }
    const auto* const begin = static_cast<const std::uint8_t*>(block);
    bytes.insert(bytes.end(), begin, begin + size);
  }
}

}  // namespace mcnb
