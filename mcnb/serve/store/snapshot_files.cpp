#include "mcnb/serve/store/snapshot_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
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
    : folder_(data_folder / "snapshots"), lease_(lease), piece_files_(folder_) {}

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
  std::ranges::copy(piece_files_.models(), std::inserter(all, all.end()));
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
  remove_oldest(model);
  lease_.require();
}

// Rows that only the older ones need may be erased next, so those must not come back.
void SnapshotFiles::remove_oldest(std::uint32_t model) {
  std::vector<Found> oldest = files();
  std::erase_if(
      oldest, [&](const Found& found) { return found.model != model || found.ending != kEnding; });
  std::ranges::sort(oldest, std::greater<>(), &Found::position);
  oldest.erase(oldest.begin(),
               oldest.begin() + static_cast<std::ptrdiff_t>(std::min(kKept, oldest.size())));
  remove(oldest);
}

SnapshotSource SnapshotFiles::open(std::uint32_t model, std::uint64_t position) {
  const fs::path file = path(model, position);
  if (List known = list(model, position)) {
    return {file.string(), std::make_unique<StateOfPieces>(piece_files_, model, std::move(known))};
  }
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
  const std::lock_guard lock(mutex_);
  lists_[model].erase(position);
}

void SnapshotFiles::remove(const std::vector<Found>& files) {
  std::vector<fs::path> paths;
  for (const Found& file : files) {
    paths.push_back(file.path);
    if (file.ending == kEnding) {
      const std::lock_guard lock(mutex_);
      lists_[file.model].erase(file.position);
    }
  }
  remove_paths(paths);
}

void SnapshotFiles::remove_paths(const std::vector<fs::path>& paths) const {
  if (paths.empty()) {
    return;
  }
  lease_.require();
  for (const fs::path& path : paths) {
    std::error_code problem;
    fs::remove(path, problem);
    if (problem) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot remove: {}", path.string(), problem.message()));
    }
  }
  sync_to_disk(folder_);
}

void SnapshotFiles::remove_before(std::uint32_t model, std::uint64_t position) {
  const std::lock_guard changing(changing_);
  std::vector<Found> old = files();
  std::erase_if(old, [&](const Found& file) {
    return file.model != model || (file.position >= position && file.ending == kEnding);
  });
  // First, so that the older ones are there until all is done.
  erase_gaps(model, position);
  remove(old);
  remove_unneeded_pieces(model);
  if (old.empty()) {
    // They may have been removed by a process that ended before it could sync.
    std::error_code missing;
    if (fs::exists(folder_, missing)) {
      sync_to_disk(folder_);
    }
  }
}

void SnapshotFiles::remove_unfinished() {
  const std::lock_guard changing(changing_);
  std::vector<Found> unfinished = files();
  std::set<std::uint32_t> models;
  for (const Found& file : unfinished) {
    models.insert(file.model);
  }
  std::erase_if(unfinished, [](const Found& file) { return !file.ending.ends_with(kUnfinished); });
  remove(unfinished);
  remove_paths(piece_files_.unfinished());
  for (const std::uint32_t model : models) {
    for (const std::uint64_t position : positions(model)) {
      try {
        if (List found = list(model, position)) {
          const std::lock_guard lock(mutex_);
          lists_[model][position] = std::move(found);
        }
      } catch (const Error&) {
        // Who opens it hears of it.
      }
    }
  }
  for (const std::uint32_t model : piece_files_.models()) {
    remove_unneeded_pieces(model);
  }
}

void SnapshotFiles::copy_to(const fs::path& folder) {
  const fs::path target = folder / folder_.filename();
  std::vector<fs::path> all = piece_files_.finished();
  for (const Found& file : files()) {
    if (!file.ending.ends_with(kUnfinished)) {
      all.push_back(file.path);
    }
  }
  if (all.empty()) {
    return;
  }
  make_folder(target);
  for (const fs::path& file : all) {
    copy_whole_file(file, target / file.filename(), FileAccess::kOwner);
  }
}

}  // namespace mcnb
