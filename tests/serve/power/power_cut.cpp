#include "tests/serve/power/power_cut.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "mcnb/base/check.h"

namespace mcnb::power {
namespace {

using Kind = FileOperation::Kind;
constexpr std::size_t kSector = 512;

bool changes_names(Kind kind) {
  return kind == Kind::kMakeFile || kind == Kind::kMakeFolder || kind == Kind::kRename ||
         kind == Kind::kRemove;
}

// What of the operations that were not synced a cut leaves. One kind of luck for the whole cut
// finds more than a coin for each operation: all but one, or only one, is what breaks programs.
class Luck {
 public:
  explicit Luck(Rng& rng, std::size_t count) : rng_(rng) {
    const std::uint64_t kind = rng.below(6);
    share_ = kind == 0 ? 0.0 : kind == 1 ? 1.0 : kind == 2 ? rng.uniform() : kind == 3 ? 0.5 : -1.0;
    only_ = kind == 4;
    chosen_ = count == 0 ? 0 : rng.below(count);
  }

  // Whether the next operation survives; whole, unless `torn`.
  bool survives() {
    const std::size_t number = next_++;
    if (share_ < 0.0) {
      return (number == chosen_) == only_;
    }
    return rng_.chance(share_);
  }
  bool tears() { return share_ > 0.0 && share_ < 1.0 && rng_.chance(0.3); }
  bool chance(double share) { return rng_.chance(share); }

 private:
  Rng& rng_;
  double share_ = -1.0;  // negative: all or none but the chosen one
  bool only_ = false;
  std::uint64_t chosen_ = 0;
  std::size_t next_ = 0;
};

// Files and names, as the operations leave them.
class Disk {
 public:
  void make(const FileOperation& own) {
    names_[own.folder][own.name] = own.file;
    if (own.kind == Kind::kMakeFolder) {
      folders_.insert(own.file);
    }
  }
  void take_away(FileNumber folder, const std::string& name, FileNumber file) {
    const auto found = names_[folder].find(name);
    if (found != names_[folder].end() && found->second == file) {
      names_[folder].erase(found);
    }
  }
  void give(FileNumber folder, const std::string& name, FileNumber file) {
    names_[folder][name] = file;
  }
  void note_folder(FileNumber file) { folders_.insert(file); }

  void write(FileNumber file, std::uint64_t offset, std::string_view bytes) {
    std::string& contents = contents_[file];
    contents.resize(std::max<std::size_t>(contents.size(), offset + bytes.size()));
    contents.replace(offset, bytes.size(), bytes);
  }
  void resize(FileNumber file, std::uint64_t size) { contents_[file].resize(size); }
  void grow(FileNumber file, std::uint64_t size) {
    contents_[file].resize(std::max<std::size_t>(contents_[file].size(), size));
  }

  void write_to(const std::filesystem::path& path, FileNumber folder = 0) {
    for (const auto& [name, file] : names_[folder]) {
      const std::filesystem::path own = path / name;
      if (folders_.contains(file)) {
        std::filesystem::create_directory(own);
        write_to(own, file);
      } else {
        const std::string& bytes = contents_[file];
        std::ofstream out(own, std::ios::binary);
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        check(out.good(), "a file can be restored");
      }
    }
  }

 private:
  std::map<FileNumber, std::map<std::string, FileNumber>> names_;
  std::map<FileNumber, std::string> contents_;
  std::set<FileNumber> folders_;
};

// Which operations before the cut are surely on the disk.
class Durable {
 public:
  Durable(const Recording& recording, std::size_t cut, Ignored ignored) {
    std::set<FileNumber> folders{0};
    for (std::size_t i = 0; i < cut; ++i) {
      const FileOperation& own = recording[i];
      if (own.kind == Kind::kMakeFolder) {
        folders.insert(own.file);
      } else if (own.kind == Kind::kSync) {
        const bool of_folder = folders.contains(own.file);
        if (ignored == Ignored::kNothing || of_folder != (ignored == Ignored::kSyncsOfFolders)) {
          std::uint64_t& last = last_sync_[own.file];
          last = std::max(last, own.offset);
        }
      }
    }
  }
  bool has(FileNumber file, std::size_t operation) const {
    const auto found = last_sync_.find(file);
    return found != last_sync_.end() && operation < found->second;
  }

 private:
  std::map<FileNumber, std::uint64_t> last_sync_;
};

// Writes those sectors of the bytes that the luck leaves.
void tear(Disk& disk, const FileOperation& own, Luck& luck) {
  std::size_t begin = 0;
  while (begin < own.bytes.size()) {
    const std::size_t at = own.offset + begin;
    const std::size_t end = std::min(own.bytes.size(), begin + kSector - at % kSector);
    if (luck.chance(0.5)) {
      disk.write(own.file, at, std::string_view(own.bytes).substr(begin, end - begin));
    }
    begin = end;
  }
}

void lose(Disk& disk, const FileOperation& own, Luck& luck) {
  if (own.kind == Kind::kWrite && luck.tears()) {
    if (luck.chance(0.5)) {
      disk.grow(own.file, own.offset + own.bytes.size());
    } else {
      tear(disk, own, luck);
    }
  }
}

void apply(Disk& disk, const FileOperation& own) {
  switch (own.kind) {
    case Kind::kMakeFile:
    case Kind::kMakeFolder:
      disk.make(own);
      break;
    case Kind::kWrite:
      disk.write(own.file, own.offset, own.bytes);
      break;
    case Kind::kResize:
      disk.resize(own.file, own.offset);
      break;
    case Kind::kRename:
      check(own.folder == own.new_folder, "renames stay within their folder");
      disk.take_away(own.folder, own.name, own.file);
      disk.give(own.new_folder, own.new_name, own.file);
      break;
    case Kind::kRemove:
      disk.take_away(own.folder, own.name, own.file);
      break;
    case Kind::kSync:
      break;
  }
}

}  // namespace

void restore_after_cut(const Recording& recording, std::size_t cut, Rng& rng,
                       const std::filesystem::path& folder, Ignored ignored) {
  const Durable durable(recording, cut, ignored);
  const auto is_durable = [&](std::size_t i) {
    const FileOperation& own = recording[i];
    return durable.has(changes_names(own.kind) ? own.folder : own.file, i);
  };
  std::size_t open = 0;
  for (std::size_t i = 0; i < cut; ++i) {
    open += recording[i].kind != Kind::kSync && !is_durable(i) ? 1 : 0;
  }
  Luck luck(rng, open);
  Disk disk;
  for (std::size_t i = 0; i < cut; ++i) {
    const FileOperation& own = recording[i];
    if (own.kind == Kind::kMakeFolder) {
      disk.note_folder(own.file);  // a rename can keep a folder whose first name was lost
    }
    if (own.kind == Kind::kSync || is_durable(i) || luck.survives()) {
      apply(disk, own);
    } else {
      lose(disk, own, luck);
    }
  }
  disk.write_to(folder);
}

void restore_all(const Recording& recording, const std::filesystem::path& folder) {
  Disk disk;
  for (const FileOperation& own : recording) {
    apply(disk, own);
  }
  disk.write_to(folder);
}

}  // namespace mcnb::power
