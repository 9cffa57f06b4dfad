#include "mcnb/serve/store/piece_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "mcnb/base/error.h"
#include "mcnb/base/wide_hash.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPieceEnding = ".pieces";
constexpr std::uint64_t kMostFileBytes = std::uint64_t{256} << 20;
constexpr double kMostSpace = 1.5;  // of files, for each byte of the pieces that are needed

[[noreturn]] void refuse_pieces(const fs::path& path, const char* what) {
  throw Error(ErrorKind::kSystem,
              fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

// Closes the file at its end.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (file_ < 0) {
      refuse_pieces(path, "cannot open");
    }
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return file_; }

 private:
  int file_;
};

void write_zeros(int file, const fs::path& path, std::uint64_t begin, std::uint64_t end) {
  static const std::string zeros(std::size_t{1} << 20, '\0');
  while (begin < end) {
    const ssize_t written = ::pwrite(file, zeros.data(), std::min(end - begin, zeros.size()),
                                     static_cast<off_t>(begin));
    if (written < 0 && errno != EINTR) {
      refuse_pieces(path, "cannot write");
    }
    begin += static_cast<std::uint64_t>(std::max<ssize_t>(written, 0));
  }
}

}  // namespace

fs::path PieceFiles::path(std::uint32_t model, std::uint32_t number) const {
  return folder_ / fmt::format("{:08}-{:06}{}", model, number, kPieceEnding);
}

std::vector<PieceFiles::Found> PieceFiles::found() const {
  std::vector<Found> all;
  std::error_code problem;
  fs::directory_iterator entry(folder_, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const std::size_t dot = std::min(name.find(kPieceEnding), name.size());
    const std::size_t dash = std::min(name.find('-'), dot);
    Found file{.finished = name.substr(dot) == kPieceEnding, .path = entry->path()};
    const char* text = name.data();
    if (dot < name.size() && dash < dot &&
        std::from_chars(text, text + dash, file.model).ptr == text + dash &&
        std::from_chars(text + dash + 1, text + dot, file.number).ptr == text + dot) {
      all.push_back(std::move(file));
    }
  }
  return all;
}

std::map<std::uint32_t, std::uint64_t> PieceFiles::sizes(std::uint32_t model) const {
  std::map<std::uint32_t, std::uint64_t> sizes;
  for (const Found& file : found()) {
    std::error_code missing;
    const std::uintmax_t size = fs::file_size(file.path, missing);
    if (file.model == model && file.finished && !missing) {
      sizes[file.number] = size;
    }
  }
  return sizes;
}

std::vector<std::uint32_t> PieceFiles::models() const {
  std::set<std::uint32_t> all;
  for (const Found& file : found()) {
    all.insert(file.model);
  }
  return {all.begin(), all.end()};
}

std::vector<fs::path> PieceFiles::finished() const {
  std::vector<fs::path> paths;
  for (const Found& file : found()) {
    if (file.finished) {
      paths.push_back(file.path);
    }
  }
  return paths;
}

std::vector<fs::path> PieceFiles::unfinished() const {
  std::vector<fs::path> paths;
  for (const Found& file : found()) {
    if (!file.finished) {
      paths.push_back(file.path);
    }
  }
  return paths;
}

void PieceFiles::erase_gaps(std::uint32_t model, std::uint32_t number,
                            std::span<const std::shared_ptr<const PieceList>> lists) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> needed;
  for (const auto& list : lists) {
    for (const PieceList::Piece& piece : list->pieces()) {
      if (piece.file == number) {
        needed.emplace_back(piece.begin, piece.begin + piece.size);
      }
    }
  }
  const fs::path name = path(model, number);
  needed.emplace_back(fs::file_size(name), 0);
  std::ranges::sort(needed);
  const OpenFile file(name, O_WRONLY);
  std::uint64_t end = 0;
  for (const auto& range : needed) {
    write_zeros(file.get(), name, end, range.first);
    end = std::max(end, range.second);
  }
  if (::fsync(file.get()) != 0) {
    refuse_pieces(name, "cannot write");
  }
}

PieceReader::PieceReader(const PieceFiles& files, std::uint32_t model, std::uint64_t seed)
    : files_(files), model_(model), seed_(seed) {}

PieceReader::~PieceReader() {
  for (const auto& [number, file] : open_) {
    ::close(file);
  }
}

int PieceReader::file(std::uint32_t number) {
  const auto known = open_.find(number);
  if (known != open_.end()) {
    return known->second;
  }
  const fs::path path = files_.path(model_, number);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) {
      throw Error(ErrorKind::kCorrupt, path.string() + ": it is missing");
    }
    refuse_pieces(path, "cannot open");
  }
  open_[number] = file;
  return file;
}

std::string_view PieceReader::read(const PieceList::Piece& piece) {
  const int from = file(piece.file);
  bytes_.resize(piece.size);
  std::size_t done = 0;
  while (done < bytes_.size()) {
    const ssize_t count = ::pread(from, bytes_.data() + done, bytes_.size() - done,
                                  static_cast<off_t>(piece.begin + done));
    if (count == 0) {
      break;
    }
    if (count < 0 && errno != EINTR) {
      refuse_pieces(files_.path(model_, piece.file), "cannot read");
    }
    done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  const WideHash hash = wide_hash(bytes_, seed_);
  if (done < bytes_.size() || hash.low != piece.low || hash.high != piece.high) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: damaged between byte {} and byte {}",
                                                 files_.path(model_, piece.file).string(),
                                                 piece.begin, piece.begin + piece.size));
  }
  return bytes_;
}

PieceWriter::PieceWriter(const PieceFiles& files, std::uint32_t model)
    : files_(files), model_(model) {
  const auto sizes = files.sizes(model);
  before_ = sizes.empty() ? 0 : sizes.rbegin()->first;
  number_ = before_;
}

PieceList::Piece PieceWriter::add(const PieceName& name, std::string_view bytes) {
  const auto known = added_.find(name);
  if (known != added_.end()) {
    return known->second;
  }
  if (file_ && end_ + bytes.size() > kMostFileBytes) {
    finish();
  }
  if (!file_) {
    file_.emplace(files_.path(model_, ++number_), FileAccess::kOwner);
    end_ = 0;
  }
  file_->write(bytes);
  const PieceList::Piece piece{name.low, name.high, number_,
                               static_cast<std::uint32_t>(bytes.size()), end_};
  end_ += bytes.size();
  added_[name] = piece;
  return piece;
}

void PieceWriter::finish() {
  if (file_) {
    file_->finish();
    file_.reset();
  }
}

void PieceWriter::drop() {
  file_.reset();
  for (std::uint32_t number = before_ + 1; number <= number_; ++number) {
    std::error_code ignored;
    fs::remove(files_.path(model_, number), ignored);
  }
}

StateOfPieces::StateOfPieces(const PieceFiles& files, std::uint32_t model,
                             std::shared_ptr<const PieceList> list)
    : std::istream(nullptr),
      list_(std::move(list)),
      reader_(files, model, list_->seed()),
      buffer_([this] { return next(); }) {
  rdbuf(&buffer_);
  exceptions(std::ios::badbit);  // lets errors of the reader through
}

std::string_view StateOfPieces::next() {
  return next_ == list_->pieces().size() ? std::string_view()
                                         : reader_.read(list_->pieces()[next_++]);
}

void compact(std::vector<PieceList::Piece>& pieces, std::uint64_t seed,
             const std::map<std::uint32_t, std::uint64_t>& sizes, PieceReader& reader,
             PieceWriter& writer) {
  const PieceList::FileBytes needed = PieceList(seed, pieces).needed_bytes();
  std::uint64_t live = 0;
  std::uint64_t space = 0;
  std::vector<std::pair<double, std::uint32_t>> by_share;  // of files that were there before
  for (const auto& [file, bytes] : needed) {
    live += bytes;
    const auto size = sizes.find(file);
    space += size == sizes.end() ? bytes : size->second;
    if (size != sizes.end()) {
      by_share.emplace_back(static_cast<double>(bytes) / static_cast<double>(size->second), file);
    }
  }
  std::ranges::sort(by_share);
  std::set<std::uint32_t> sparse;
  for (const auto& [share, file] : by_share) {
    if (static_cast<double>(space) <= kMostSpace * static_cast<double>(live)) {
      break;
    }
    space -= sizes.at(file) - needed.at(file);
    sparse.insert(file);
  }
  if (sparse.empty()) {
    return;
  }
  for (PieceList::Piece& piece : pieces) {
    if (sparse.contains(piece.file)) {
      piece = writer.add(piece.name(), reader.read(piece));
    }
  }
}

}  // namespace mcnb
