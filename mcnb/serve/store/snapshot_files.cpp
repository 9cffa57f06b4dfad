#include "mcnb/serve/store/snapshot_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".snapshot";
constexpr std::string_view kUnfinished = ".part";
constexpr std::string_view kDamaged = ".damaged";
constexpr std::size_t kKept = 2;

[[noreturn]] void refuse(const fs::path& path, const char* what) {
  throw Error(ErrorKind::kSystem,
              fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

// Compares a file with bytes that come piece by piece.
class Comparison {
 public:
  explicit Comparison(const fs::path& path) : file_(path, std::ios::binary) {}

  void add(std::string_view piece) {
    read_.resize(piece.size());
    equal_ = equal_ && file_.read(read_.data(), static_cast<std::streamsize>(piece.size())) &&
             read_ == piece;
  }
  // True if the file has the bytes so far, and no more.
  bool is_equal() { return equal_ && file_.peek() == std::ifstream::traits_type::eof(); }

 private:
  std::ifstream file_;
  std::string read_;
  bool equal_ = true;
};

// The model's id and the position in "00000001-00000000000000000042".
struct NameParts {
  std::uint32_t model = 0;
  std::uint64_t position = 0;
};

std::optional<NameParts> parse_name(std::string_view name) {
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const char* end = name.data() + name.size();
  const char* middle = name.data() + dash;
  NameParts parts;
  const bool whole = std::from_chars(name.data(), middle, parts.model).ptr == middle &&
                     std::from_chars(middle + 1, end, parts.position).ptr == end;
  return whole ? std::optional(parts) : std::nullopt;
}

}  // namespace

SnapshotFiles::SnapshotFiles(const fs::path& data_folder, const Lease& lease)
    : folder_(data_folder / "snapshots"), lease_(lease) {}

fs::path SnapshotFiles::path(std::uint32_t model, std::uint64_t position) const {
  return folder_ / fmt::format("{:08}-{:020}{}", model, position, kEnding);
}

std::vector<SnapshotFiles::Found> SnapshotFiles::files() const {
  std::vector<Found> all;
  std::error_code problem;
  fs::directory_iterator entry(folder_, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const std::size_t dot = name.find(kEnding);
    if (dot == std::string::npos) {
      continue;
    }
    if (const auto parts = parse_name(std::string_view(name).substr(0, dot))) {
      all.push_back({parts->model, parts->position, name.substr(dot), entry->path()});
    }
  }
  return all;
}

std::vector<std::uint32_t> SnapshotFiles::models() {
  std::set<std::uint32_t> all;
  for (const Found& file : files()) {
    all.insert(file.model);
  }
  return {all.begin(), all.end()};
}

std::vector<std::uint64_t> SnapshotFiles::positions(std::uint32_t model) {
  std::vector<std::uint64_t> positions;
  for (const Found& file : files()) {
    if (file.model == model && file.ending == kEnding) {
      positions.push_back(file.position);
    }
  }
  std::ranges::sort(positions, std::greater<>());
  return positions;
}

// Makes no folder above its own: a data folder that was removed must not come back with nothing but
// snapshots in it.
void SnapshotFiles::make_own_folder() const {
  std::error_code error;
  if (fs::create_directory(folder_, error)) {
    sync_entry(folder_);
  }
}

void SnapshotFiles::write(std::uint32_t model, std::uint64_t position, const NextBytes& next) {
  lease_.require();
  make_own_folder();
  const fs::path file = path(model, position);
  const bool exists = fs::exists(file);
  Comparison old(file);
  FileWriter writer(file, FileAccess::kOwner);
  for (std::string_view piece = next(); !piece.empty(); piece = next()) {
    writer.write(piece);
    if (exists) {
      old.add(piece);
    }
  }
  if (exists) {
    // Only a damaged one can differ from what is to be written. It is evidence, and stays.
    if (old.is_equal()) {
      sync_to_disk(folder_);  // a crash may have come before the sync of the first time
      return;
    }
    set_aside(model, position);
  }
  writer.finish();
  // Rows that only the older ones need may be erased next, so those must not come back.
  std::vector<Found> oldest = files();
  std::erase_if(
      oldest, [&](const Found& found) { return found.model != model || found.ending != kEnding; });
  std::ranges::sort(oldest, std::greater<>(), &Found::position);
  oldest.erase(oldest.begin(),
               oldest.begin() + static_cast<std::ptrdiff_t>(std::min(kKept, oldest.size())));
  remove(oldest);
  lease_.require();
}

SnapshotSource SnapshotFiles::open(std::uint32_t model, std::uint64_t position) {
  const fs::path file = path(model, position);
  auto stream = std::make_unique<std::ifstream>(file, std::ios::binary);
  if (!*stream) {
    refuse(file, "cannot open");
  }
  return {file.string(), std::move(stream)};
}

void SnapshotFiles::set_aside(std::uint32_t model, std::uint64_t position) {
  lease_.require();
  const fs::path file = path(model, position);
  fs::path aside = file;
  aside += kDamaged;
  std::error_code problem;
  fs::rename(file, aside, problem);
  if (!problem) {
    sync_to_disk(folder_);
  }
}

void SnapshotFiles::remove(const std::vector<Found>& files) const {
  if (files.empty()) {
    return;
  }
  lease_.require();
  for (const Found& file : files) {
    std::error_code problem;
    fs::remove(file.path, problem);
    if (problem) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot remove: {}", file.path.string(), problem.message()));
    }
  }
  sync_to_disk(folder_);
}

void SnapshotFiles::remove_before(std::uint32_t model, std::uint64_t position) {
  std::vector<Found> old = files();
  std::erase_if(old, [&](const Found& file) {
    return file.model != model || (file.position >= position && file.ending == kEnding);
  });
  remove(old);
  if (old.empty()) {
    // They may have been removed by a process that ended before it could sync.
    std::error_code missing;
    if (fs::exists(folder_, missing)) {
      sync_to_disk(folder_);
    }
  }
}

void SnapshotFiles::remove_unfinished() {
  std::vector<Found> unfinished = files();
  std::erase_if(unfinished, [](const Found& file) { return !file.ending.ends_with(kUnfinished); });
  remove(unfinished);
}

void SnapshotFiles::copy_to(const fs::path& folder) {
  const fs::path target = folder / folder_.filename();
  std::vector<Found> all = files();
  std::erase_if(all, [](const Found& file) { return file.ending.ends_with(kUnfinished); });
  if (all.empty()) {
    return;
  }
  make_folder(target);
  for (const Found& file : all) {
    copy_whole_file(file.path, target / file.path.filename(), FileAccess::kOwner);
  }
}

}  // namespace mcnb
