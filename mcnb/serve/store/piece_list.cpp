#include "mcnb/serve/store/piece_list.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <utility>

#include "mcnb/base/files.h"
#include "mcnb/base/piece_cutter.h"

namespace mcnb {
namespace {

const StateHeader kListHeader{.kind = "snapshot-pieces", .version = 1};
constexpr std::uint64_t kMostPieces = 0xffffffffU;
// The magic number, the head of the first frame, and the length of the kind.
constexpr std::size_t kBeforeKind = 8 + 16 + 8;

}  // namespace

PieceList::PieceList(std::uint64_t seed, std::vector<Piece> pieces)
    : seed_(seed), pieces_(std::move(pieces)), by_name_(pieces_.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  const auto name_of = [this](std::uint32_t i) { return pieces_[i].name(); };
  std::ranges::sort(by_name_, {}, name_of);
  const auto same = std::ranges::unique(by_name_, {}, name_of);
  by_name_.erase(same.begin(), same.end());
  by_name_.shrink_to_fit();
  for (const std::uint32_t i : by_name_) {
    needed_bytes_[pieces_[i].file] += pieces_[i].size;
  }
}

bool PieceList::is_list(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string begin(kBeforeKind + kListHeader.kind.size(), '\0');
  return in.read(begin.data(), static_cast<std::streamsize>(begin.size())) &&
         begin.ends_with(kListHeader.kind);
}

PieceList PieceList::load(const std::filesystem::path& path) {
  std::uint64_t seed = 0;
  std::vector<Piece> pieces;
  load_state_file(path, kListHeader, [&](StateReader& reader) {
    seed = reader.read<std::uint64_t>();
    pieces = reader.read_all<Piece>(kMostPieces);
    for (const Piece& piece : pieces) {
      if (piece.size == 0 || piece.size > PieceCutter::kMost) {
        reader.fail("a piece has a length that no piece has");
      }
    }
  });
  return {seed, std::move(pieces)};
}

void PieceList::save(const std::filesystem::path& path) const {
  FileWriter file(path, FileAccess::kOwner);
  StateWriter writer(file.stream(), path.string(), kListHeader);
  writer.write(seed_);
  writer.write_all(pieces_);
  writer.finish();
  file.finish();
}

const PieceList::Piece* PieceList::find(const PieceName& name) const {
  const auto name_of = [this](std::uint32_t i) { return pieces_[i].name(); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found == by_name_.end() || name_of(*found) != name ? nullptr : &pieces_[*found];
}

}  // namespace mcnb
