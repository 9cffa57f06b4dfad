#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mcnb/serve/store/storage.h"

namespace mcnb {

// A snapshot in pieces: which they are, in order, and where their bytes lie. The bytes are in files
// beside it, some of which earlier snapshots wrote.
class PieceList : public KnownPieces {
 public:
  struct Piece {
    std::uint64_t low = 0;  // its name
    std::uint64_t high = 0;
    std::uint32_t file = 0;  // its number among those of the model
    std::uint32_t size = 0;
    std::uint64_t begin = 0;  // in the file

    PieceName name() const { return {low, high}; }
    using Stored =
        StoredInOrder<&Piece::low, &Piece::high, &Piece::file, &Piece::size, &Piece::begin>;
  };

  PieceList() = default;
  PieceList(std::uint64_t seed, std::vector<Piece> pieces);

  // Throws Error (kCorrupt) for a damaged file. `is_list`: the file begins as such a list does.
  static bool is_list(const std::filesystem::path& path);
  static PieceList load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

  std::uint64_t seed() const { return seed_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  bool has(const PieceName& name) const override { return find(name) != nullptr; }
  // nullptr if it has no such piece.
  const Piece* find(const PieceName& name) const;

  // Bytes of the files that the list needs, by their numbers.
  using FileBytes = std::map<std::uint32_t, std::uint64_t>;
  const FileBytes& needed_bytes() const { return needed_bytes_; }

 private:
  std::uint64_t seed_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> by_name_;  // indices of pieces with different names, ordered by name
  FileBytes needed_bytes_;
};

}  // namespace mcnb
