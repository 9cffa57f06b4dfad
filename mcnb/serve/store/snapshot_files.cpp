#include "mcnb/serve/store/snapshot_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "mcnb/base/error.h"

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

class File {
 public:
  File(const fs::path& path, int flags) : path_(path), file_(::open(path.c_str(), flags, 0600)) {
    if (file_ < 0) {
      refuse(path, "cannot open");
    }
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) {
        refuse(path_, "cannot write");
      }
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  }
  void sync() {
    if (::fsync(file_) != 0) {
      refuse(path_, "cannot sync");
    }
  }

 private:
  fs::path path_;
  int file_;
};

bool holds(const fs::path& path, std::string_view bytes) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.view() == bytes;
}

// "00000001-00000000000000000042.snapshot": the model's id and the place, or nothing.
bool parse_name(std::string_view name, std::uint32_t& model, std::uint64_t& place) {
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) {
    return false;
  }
  const char* end = name.data() + name.size();
  const char* middle = name.data() + dash;
  return std::from_chars(name.data(), middle, model).ptr == middle &&
         std::from_chars(middle + 1, end, place).ptr == end;
}

}  // namespace

void write_durably(const fs::path& path, std::string_view bytes) {
  fs::path temporary = path;
  temporary += kUnfinished;
  std::error_code ignored;
  try {
    {
      File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
      file.write(bytes);
      file.sync();
    }
    fs::rename(temporary, path);
    File(path.parent_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
  } catch (const fs::filesystem_error& error) {
    fs::remove(temporary, ignored);
    throw Error(ErrorKind::kSystem, fmt::format("{}: {}", path.string(), error.code().message()));
  } catch (const Error&) {
    fs::remove(temporary, ignored);
    throw;
  }
}

Snapshots::Snapshots(const fs::path& data_folder) : folder_(data_folder / "snapshots") {}

std::string Snapshots::bytes_of(Model& model, const std::string& name) {
  std::ostringstream out;
  StateWriter writer(out, name, kModelState);
  model.save(writer);
  writer.finish();
  return std::move(out).str();
}

std::string Snapshots::file_of(Model& model, const std::string& name, std::uint64_t folder_id) {
  std::ostringstream out;
  StateWriter writer(out, name, kModelState);
  writer.write(folder_id);
  model.save(writer);
  writer.finish();
  return std::move(out).str();
}

fs::path Snapshots::path(std::uint32_t model, std::uint64_t place) const {
  return folder_ / fmt::format("{:08}-{:020}{}", model, place, kEnding);
}

std::vector<Snapshots::Found> Snapshots::files() const {
  std::vector<Found> all;
  std::error_code problem;
  fs::directory_iterator entry(folder_, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const std::size_t dot = name.find(kEnding);
    Found found;
    if (dot != std::string::npos &&
        parse_name(std::string_view(name).substr(0, dot), found.model, found.place)) {
      found.ending = name.substr(dot);
      found.path = entry->path();
      all.push_back(std::move(found));
    }
  }
  return all;
}

std::vector<std::uint32_t> Snapshots::models() const {
  std::set<std::uint32_t> all;
  for (const Found& file : files()) {
    all.insert(file.model);
  }
  return {all.begin(), all.end()};
}

std::vector<std::uint64_t> Snapshots::places(std::uint32_t model) const {
  std::vector<std::uint64_t> places;
  for (const Found& file : files()) {
    if (file.model == model && file.ending == kEnding) {
      places.push_back(file.place);
    }
  }
  std::ranges::sort(places, std::greater<>());
  return places;
}

void Snapshots::write(std::uint32_t model, std::uint64_t place, const std::string& bytes) {
  std::error_code problem;
  fs::create_directories(folder_, problem);
  const fs::path file = path(model, place);
  if (fs::exists(file)) {
    // Only a damaged one can differ from what is to be written. It is evidence, and stays.
    if (holds(file, bytes)) {
      return;
    }
    set_aside(model, place);
  }
  write_durably(file, bytes);
  const std::vector<std::uint64_t> all = places(model);
  for (std::size_t i = kKept; i < all.size(); ++i) {
    fs::remove(path(model, all[i]), problem);
  }
}

void Snapshots::load(std::uint32_t model, std::uint64_t place, std::uint64_t folder_id,
                     Model& into) const {
  load_state_file(path(model, place), kModelState, [&](StateReader& reader) {
    if (reader.read<std::uint64_t>() != folder_id) {
      reader.fail("it belongs to another database");
    }
    into.load(reader);
  });
}

void Snapshots::set_aside(std::uint32_t model, std::uint64_t place) {
  const fs::path file = path(model, place);
  fs::path aside = file;
  aside += kDamaged;
  std::error_code ignored;
  fs::rename(file, aside, ignored);
}

void Snapshots::remove_before(std::uint32_t model, std::uint64_t place) {
  for (const Found& file : files()) {
    if (file.model == model && (file.place < place || file.ending != kEnding)) {
      std::error_code problem;
      fs::remove(file.path, problem);
      if (problem) {
        throw Error(ErrorKind::kSystem,
                    fmt::format("{}: cannot remove: {}", file.path.string(), problem.message()));
      }
    }
  }
}

void Snapshots::remove_all(std::uint32_t model) { remove_before(model, ~std::uint64_t{0}); }

void Snapshots::remove_unfinished() {
  for (const Found& file : files()) {
    if (file.ending.ends_with(kUnfinished)) {
      std::error_code ignored;
      fs::remove(file.path, ignored);
    }
  }
}

}  // namespace mcnb
