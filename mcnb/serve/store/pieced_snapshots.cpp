// Snapshots in pieces, as SnapshotFiles keeps them.

#include <algorithm>
#include <filesystem>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/store/snapshot_files.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// Whether a snapshot verifies a piece that it takes over: one of sixteen, others at each position.
// So damage of old pieces is found while the other snapshot is still sound.
bool is_verified_at(std::uint64_t position, const PieceList::Piece& piece) {
  return (piece.high + position * 0x9e3779b97f4a7c15ULL) >> 60 == 0;
}

bool share_files(const PieceList& one, const PieceList& other) {
  return std::ranges::any_of(one.needed_bytes(), [&](const auto& entry) {
    return other.needed_bytes().contains(entry.first);
  });
}

}  // namespace

// nullptr if the snapshot is not in pieces. Throws Error (kCorrupt) if its list is damaged.
SnapshotFiles::List SnapshotFiles::list(std::uint32_t model, std::uint64_t position) const {
  {
    const std::lock_guard lock(mutex_);
    const auto of_model = lists_.find(model);
    if (of_model != lists_.end() && of_model->second.contains(position)) {
      return of_model->second.at(position);
    }
  }
  const fs::path file = path(model, position);
  return PieceList::is_list(file) ? std::make_shared<const PieceList>(PieceList::load(file))
                                  : nullptr;
}

std::shared_ptr<const KnownPieces> SnapshotFiles::known_pieces(std::uint32_t model, bool alone) {
  const std::lock_guard lock(mutex_);
  const std::map<std::uint64_t, List>& lists = lists_[model];
  if (alone) {
    return lists.empty() ? nullptr : lists.rbegin()->second;
  }
  if (lists.size() < 2 || share_files(*lists.begin()->second, *lists.rbegin()->second)) {
    return nullptr;
  }
  return lists.begin()->second;
}

void SnapshotFiles::write_pieces(std::uint32_t model, std::uint64_t position,
                                 const PiecedState& state) {
  const std::lock_guard changing(changing_);
  lease_.require();
  make_own_folder();
  List base;
  std::uint64_t base_position = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [at, known] : lists_[model]) {
      if (known == state.known) {
        base = known;
        base_position = at;
      }
    }
  }
  if (state.known && !base) {
    throw Error(ErrorKind::kSystem,
                path(model, position).string() + ": the snapshot that it goes on from is gone");
  }
  PieceReader reader(piece_files_, model, state.seed);
  PieceWriter writer(piece_files_, model);
  try {
    const List written = std::make_shared<const PieceList>(
        state.seed, store(state, position, base.get(), reader, writer));
    const fs::path file = path(model, position);
    if (fs::exists(file)) {
      if (has_same_bytes(model, position, *written)) {
        remove_unneeded_pieces(model);
        sync_to_disk(folder_);  // a crash may have come before the sync of the first time
        return;
      }
      set_aside(model, position);
    }
    written->save(file);
    const std::lock_guard lock(mutex_);
    lists_[model][position] = written;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt && base) {
      set_aside(model, base_position);
      forget_lists(model);
    }
    writer.drop();
    throw;
  }
  remove_oldest(model);
  remove_unneeded_pieces(model);
  lease_.require();
}

std::vector<PieceList::Piece> SnapshotFiles::store(const PiecedState& state, std::uint64_t position,
                                                   const PieceList* base, PieceReader& reader,
                                                   PieceWriter& writer) const {
  const std::map<std::uint32_t, std::uint64_t> sizes = piece_files_.sizes(writer.model());
  std::vector<PieceList::Piece> pieces;
  while (const std::optional<SnapshotPiece> piece = state.next()) {
    if (!piece->bytes.empty()) {
      pieces.push_back(writer.add(piece->name, piece->bytes));
      continue;
    }
    const PieceList::Piece* known = base == nullptr ? nullptr : base->find(piece->name);
    if (known == nullptr) {
      throw Error(ErrorKind::kSystem, "a piece of a snapshot came without its bytes");
    }
    if (is_verified_at(position, *known)) {
      reader.read(*known);
    }
    pieces.push_back(*known);
  }
  compact(pieces, state.seed, sizes, reader, writer);
  writer.finish();
  return pieces;
}

// Verifies the one that is there.
bool SnapshotFiles::has_same_bytes(std::uint32_t model, std::uint64_t position,
                                   const PieceList& other) const {
  try {
    const List old = list(model, position);
    if (!old || old->seed() != other.seed() ||
        !std::ranges::equal(old->pieces(), other.pieces(), {}, &PieceList::Piece::name,
                            &PieceList::Piece::name)) {
      return false;
    }
    PieceReader reader(piece_files_, model, old->seed());
    for (const PieceList::Piece& piece : old->pieces()) {
      reader.read(piece);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) {
      throw;
    }
    return false;
  }
}

// The pieces files that a snapshot of the model needs, also one that was set aside. nullopt if one
// of them does not say what it needs.
std::optional<std::set<std::uint32_t>> SnapshotFiles::needed_files(std::uint32_t model) const {
  std::set<std::uint32_t> needed;
  for (const Found& file : files()) {
    if (file.model != model) {
      continue;
    }
    try {
      List known;
      {
        const std::lock_guard lock(mutex_);
        const auto of_model = lists_.find(model);
        if (of_model != lists_.end() && file.path == path(model, file.position)) {
          const auto found = of_model->second.find(file.position);
          known = found == of_model->second.end() ? nullptr : found->second;
        }
      }
      if (!known && PieceList::is_list(file.path)) {
        known = std::make_shared<const PieceList>(PieceList::load(file.path));
      }
      if (known) {
        for (const auto& [number, bytes] : known->needed_bytes()) {
          needed.insert(number);
        }
      }
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return needed;
}

void SnapshotFiles::remove_unneeded_pieces(std::uint32_t model) const {
  const std::optional<std::set<std::uint32_t>> needed = needed_files(model);
  if (!needed) {
    return;
  }
  std::vector<fs::path> unneeded;
  for (const auto& [number, size] : piece_files_.sizes(model)) {
    if (!needed->contains(number)) {
      unneeded.push_back(piece_files_.path(model, number));
    }
  }
  remove_paths(unneeded);
}

// Sets a damaged one aside and throws.
void SnapshotFiles::demand_sound(std::uint32_t model, std::uint64_t position,
                                 const PieceList& list) {
  try {
    PieceReader reader(piece_files_, model, list.seed());
    for (const PieceList::Piece& piece : list.pieces()) {
      reader.read(piece);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt) {
      set_aside(model, position);
      forget_lists(model);
    }
    throw;
  }
}

// After damage: the next snapshot goes on from none of those that are there, so it is written
// whole.
void SnapshotFiles::forget_lists(std::uint32_t model) {
  const std::lock_guard lock(mutex_);
  lists_[model].clear();
}

// Erases what earlier snapshots had in the files of those from `position` on. These must be sound:
// the others are removed next.
void SnapshotFiles::erase_gaps(std::uint32_t model, std::uint64_t position) {
  std::vector<List> kept;
  std::set<std::uint32_t> numbers;
  for (const Found& file : files()) {
    if (file.model != model || file.position < position ||
        file.path != path(model, file.position)) {
      continue;
    }
    if (List found = list(model, file.position)) {
      demand_sound(model, file.position, *found);
      for (const auto& [number, bytes] : found->needed_bytes()) {
        numbers.insert(number);
      }
      kept.push_back(std::move(found));
    }
  }
  for (const std::uint32_t number : numbers) {
    lease_.require();
    piece_files_.erase_gaps(model, number, kept);
  }
}

}  // namespace mcnb
