#include "mcnb/data/sets/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 16;

struct ArchiveCloser {
  void operator()(archive* open) const { archive_read_free(open); }
};
using OpenArchive = std::unique_ptr<archive, ArchiveCloser>;

OpenArchive new_archive() {
  OpenArchive made(archive_read_new());
  if (made == nullptr) {
    throw Error(ErrorKind::kLimit, "no memory to read an archive");
  }
  return made;
}

[[noreturn]] void refuse_archive(const fs::path& path, archive* reader) {
  const char* why = archive_error_string(reader);
  throw Error(ErrorKind::kInput, fmt::format("{}: expected an archive: {}", path.string(),
                                             why == nullptr ? "damaged" : why));
}

bool is_fine(int result) { return result == ARCHIVE_OK || result == ARCHIVE_WARN; }

// Feeds the bytes of a member to an inner archive reader.
struct Member {
  archive* outer;
  std::array<char, kBlock> block;

  static la_ssize_t give(archive* inner, void* context, const void** bytes) {
    Member& member = *static_cast<Member*>(context);
    const la_ssize_t count =
        archive_read_data(member.outer, member.block.data(), member.block.size());
    if (count < 0) {
      const char* why = archive_error_string(member.outer);
      archive_set_error(inner, EIO, "%s", why == nullptr ? "damaged" : why);
      return ARCHIVE_FATAL;
    }
    *bytes = member.block.data();
    return count;
  }
};

void copy_data(const fs::path& path, archive* reader, FileWriter& file) {
  std::array<char, kBlock> block;
  for (;;) {
    const la_ssize_t count = archive_read_data(reader, block.data(), block.size());
    if (count < 0) {
      refuse_archive(path, reader);
    }
    if (count == 0) {
      return;
    }
    file.write({block.data(), static_cast<std::size_t>(count)});
  }
}

void copy_decompressed(const fs::path& path, archive* reader, FileWriter& file) {
  const OpenArchive inner = new_archive();
  archive_read_support_filter_compress(inner.get());
  archive_read_support_format_raw(inner.get());
  Member member{.outer = reader, .block = {}};
  archive_entry* entry = nullptr;
  if (archive_read_open(inner.get(), &member, nullptr, Member::give, nullptr) != ARCHIVE_OK ||
      !is_fine(archive_read_next_header(inner.get(), &entry))) {
    refuse_archive(path, inner.get());
  }
  copy_data(path, inner.get(), file);
}

}  // namespace

void unpack(const fs::path& path, const std::vector<std::string>& members, const fs::path& folder) {
  const OpenArchive reader = new_archive();
  // Only the kinds that data sets use: for some others the library would start other programs.
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_format_tar(reader.get());
  archive_read_support_format_zip(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), kBlock) != ARCHIVE_OK) {
    refuse_archive(path, reader.get());
  }
  std::vector<std::string> left = members;
  while (!left.empty()) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(reader.get(), &entry);
    if (result == ARCHIVE_EOF) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected {} in the archive", path.string(), left.front()));
    }
    if (!is_fine(result)) {
      refuse_archive(path, reader.get());
    }
    // A path that the current locale cannot represent has no name here, and is skipped.
    const char* const where = archive_entry_pathname(entry);
    if (where == nullptr || archive_entry_filetype(entry) != AE_IFREG) {
      continue;
    }
    const std::string name = fs::path(where).filename().string();
    const auto found = std::ranges::find_if(
        left, [&](const std::string& member) { return name == member || name == member + ".Z"; });
    if (found == left.end()) {
      continue;
    }
    FileWriter file(folder / *found);
    if (name == *found) {
      copy_data(path, reader.get(), file);
    } else {
      copy_decompressed(path, reader.get(), file);
    }
    file.finish();
    left.erase(found);
  }
}

}  // namespace mcnb
