#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mcnb/serve/store/piece_files.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// Snapshots as files FOLDER/snapshots/MODEL-POSITION.snapshot. Those in pieces have lists there,
// and their bytes in files MODEL-NUMBER.pieces (piece_files.h). A snapshot in pieces goes on from
// the older one of two, so that the two that stay have no file in common. A damaged one gets
// another ending. What is written, renamed or removed is on the disk when the function returns.
class SnapshotFiles : public SnapshotStore {
 public:
  // Borrows the lease: nothing is written without it.
  SnapshotFiles(const std::filesystem::path& data_folder, const Lease& lease);

  std::vector<std::uint32_t> models() override;
  std::vector<std::uint64_t> positions(std::uint32_t model) override;
  void write(std::uint32_t model, std::uint64_t position, const NextBytes& next) override;
  void write_pieces(std::uint32_t model, std::uint64_t position, const PiecedState& state) override;
  std::shared_ptr<const KnownPieces> known_pieces(std::uint32_t model, bool alone) override;
  SnapshotSource open(std::uint32_t model, std::uint64_t position) override;
  void set_aside(std::uint32_t model, std::uint64_t position) override;
  void remove_before(std::uint32_t model, std::uint64_t position) override;
  void remove_unfinished() override;
  // Writes a copy of all snapshots into a folder.
  void copy_to(const std::filesystem::path& folder);

 private:
  struct Found {
    std::uint32_t model = 0;
    std::uint64_t position = 0;
    std::string ending;  // ".snapshot", possibly followed by ".part" or ".damaged"
    std::filesystem::path path;
  };
  std::vector<Found> files() const;
  std::filesystem::path path(std::uint32_t model, std::uint64_t position) const;
  void make_own_folder() const;
  void remove(const std::vector<Found>& files);
  void remove_oldest(std::uint32_t model);
  void remove_paths(const std::vector<std::filesystem::path>& paths) const;

  using List = std::shared_ptr<const PieceList>;
  List list(std::uint32_t model, std::uint64_t position) const;
  bool has_same_bytes(std::uint32_t model, std::uint64_t position, const PieceList& other) const;
  std::vector<PieceList::Piece> store(const PiecedState& state, std::uint64_t position,
                                      const PieceList* base, PieceReader& reader,
                                      PieceWriter& writer) const;
  std::optional<std::set<std::uint32_t>> needed_files(std::uint32_t model) const;
  void remove_unneeded_pieces(std::uint32_t model) const;
  void demand_sound(std::uint32_t model, std::uint64_t position, const PieceList& list);
  void forget_lists(std::uint32_t model);
  void erase_gaps(std::uint32_t model, std::uint64_t position);

  std::filesystem::path folder_;
  const Lease& lease_;
  PieceFiles piece_files_;
  std::mutex changing_;       // held while pieces are written or removed
  mutable std::mutex mutex_;  // guards lists_
  std::map<std::uint32_t, std::map<std::uint64_t, List>> lists_;  // by model and position
};

}  // namespace mcnb
