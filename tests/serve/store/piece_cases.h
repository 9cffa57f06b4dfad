#pragma once

#include <cstdint>
#include <istream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/framed_state.h"
#include "mcnb/base/piece_cutter.h"
#include "mcnb/base/random.h"
#include "mcnb/base/wide_hash.h"
#include "mcnb/serve/store/storage.h"

// Snapshots in pieces for tests of stores: any text is taken for the contents of a state.
namespace mcnb::cases {

inline constexpr std::uint64_t kPieceSeed = 4711;

inline std::string random_contents(std::size_t count, std::uint64_t seed) {
  Rng rng(seed, Stream::kTest, count);
  std::string contents(count, '\0');
  for (char& byte : contents) {
    byte = static_cast<char>(rng.below(256));
  }
  return contents;
}

inline std::string framed(std::string_view contents) {
  FramedState buffer([&] { return std::exchange(contents, {}); });
  std::ostringstream bytes;
  bytes << &buffer;
  return bytes.str();
}

// Pieces of contents, of which those that `known` has come without their bytes. Counts the bytes of
// the others. `fails_at`: the number of the piece at which reading throws.
struct CutContents {
  explicit CutContents(std::string_view contents, std::shared_ptr<const KnownPieces> base)
      : known(std::move(base)) {
    PieceCutter cutter([this](std::string_view piece) { pieces.emplace_back(piece); });
    cutter.add(contents);
    cutter.finish();
  }

  PiecedState state() {
    return {kPieceSeed, known, [this]() -> std::optional<SnapshotPiece> {
              if (next == fails_at) {
                throw Error(ErrorKind::kSystem, "the pieces ended early");
              }
              if (next == pieces.size()) {
                return std::nullopt;
              }
              const std::string& bytes = pieces[next++];
              const WideHash hash = wide_hash(bytes, kPieceSeed);
              SnapshotPiece piece{
                  {hash.low, hash.high}, static_cast<std::uint32_t>(bytes.size()), bytes};
              if (known && known->has(piece.name)) {
                piece.bytes = {};
              }
              sent += piece.bytes.size();
              return piece;
            }};
  }

  std::shared_ptr<const KnownPieces> known;
  std::vector<std::string> pieces;
  std::size_t next = 0;
  std::size_t fails_at = ~std::size_t{0};
  std::uint64_t sent = 0;
};

// The pieces of a snapshot, with their bytes.
class MemoryPieces : public KnownPieces {
 public:
  MemoryPieces(std::string contents, std::uint64_t seed) {
    PieceCutter cutter([&](std::string_view piece) {
      const WideHash hash = wide_hash(piece, seed);
      pieces_[{hash.low, hash.high}] = piece;
    });
    cutter.add(contents);
    cutter.finish();
  }

  bool has(const PieceName& name) const override { return pieces_.contains(name); }
  const std::string& bytes(const PieceName& name) const { return pieces_.at(name); }

 private:
  std::map<PieceName, std::string> pieces_;
};

// Returns the bytes that the store did not know.
inline std::uint64_t write_contents(SnapshotStore& store, std::uint32_t model,
                                    std::uint64_t position, std::string_view contents,
                                    bool alone = false) {
  CutContents cut(contents, store.known_pieces(model, alone));
  store.write_pieces(model, position, cut.state());
  if (alone) {
    store.remove_before(model, position);
  }
  return cut.sent;
}

inline std::string read_snapshot(SnapshotStore& store, std::uint32_t model,
                                 std::uint64_t position) {
  const SnapshotSource source = store.open(model, position);
  return {std::istreambuf_iterator<char>(*source.bytes), {}};
}

}  // namespace mcnb::cases
