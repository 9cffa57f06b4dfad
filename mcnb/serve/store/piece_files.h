#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mcnb/base/files.h"
#include "mcnb/base/framed_state.h"
#include "mcnb/serve/store/piece_list.h"

namespace mcnb {

// The files FOLDER/MODEL-NUMBER.pieces, which hold the bytes of pieces one after the other. Once it
// is there, a file changes only by `erase_gaps`.
class PieceFiles {
 public:
  explicit PieceFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path path(std::uint32_t model, std::uint32_t number) const;
  // Sizes of a model's files, by their numbers.
  std::map<std::uint32_t, std::uint64_t> sizes(std::uint32_t model) const;
  std::vector<std::uint32_t> models() const;
  std::vector<std::filesystem::path> finished() const;
  // What a crash left half written.
  std::vector<std::filesystem::path> unfinished() const;

  // Overwrites all bytes of this file that none of these lists needs with zeros, and syncs it.
  void erase_gaps(std::uint32_t model, std::uint32_t number,
                  std::span<const std::shared_ptr<const PieceList>> lists) const;

 private:
  struct Found {
    std::uint32_t model = 0;
    std::uint32_t number = 0;
    bool finished = false;
    std::filesystem::path path;
  };
  std::vector<Found> found() const;

  std::filesystem::path folder_;
};

// Reads pieces and verifies them.
class PieceReader {
 public:
  PieceReader(const PieceFiles& files, std::uint32_t model, std::uint64_t seed);
  ~PieceReader();
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;

  // Valid until the next call. Throws Error, which names the file and the byte: kCorrupt if it is
  // missing or has other bytes, kSystem if it cannot be read.
  std::string_view read(const PieceList::Piece& piece);

 private:
  int file(std::uint32_t number);

  const PieceFiles& files_;
  std::uint32_t model_;
  std::uint64_t seed_;
  std::map<std::uint32_t, int> open_;
  std::string bytes_;
};

// Writes pieces into new files, each one once, however often it comes.
class PieceWriter {
 public:
  PieceWriter(const PieceFiles& files, std::uint32_t model);

  PieceList::Piece add(const PieceName& name, std::string_view bytes);
  // What was added is on the disk when it returns.
  void finish();
  // Removes the files that it wrote.
  void drop();
  std::uint32_t model() const { return model_; }

 private:
  struct Hash {
    std::size_t operator()(const PieceName& name) const { return name.low; }
  };

  const PieceFiles& files_;
  std::uint32_t model_;
  std::uint32_t before_;  // the highest number of a file that was there before
  std::uint32_t number_;  // of the present file
  std::uint64_t end_ = 0;
  std::optional<FileWriter> file_;
  std::unordered_map<PieceName, PieceList::Piece, Hash> added_;
};

// The bytes of a saved state that is in pieces.
class StateOfPieces : public std::istream {
 public:
  StateOfPieces(const PieceFiles& files, std::uint32_t model,
                std::shared_ptr<const PieceList> list);

 private:
  std::string_view next();

  std::shared_ptr<const PieceList> list_;
  PieceReader reader_;
  std::size_t next_ = 0;
  FramedState buffer_;
};

// Moves pieces of sparsely used files to the writer, until the files of these pieces take at most
// half more than the pieces. `sizes`: of the files that were there before.
void compact(std::vector<PieceList::Piece>& pieces, std::uint64_t seed,
             const std::map<std::uint32_t, std::uint64_t>& sizes, PieceReader& reader,
             PieceWriter& writer);

}  // namespace mcnb
