#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/serve/model/model.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// A child that sends nothing for so long hangs, or somebody stopped it: the housekeeping must not
// wait for it forever.
inline constexpr std::chrono::milliseconds kChildPatience(60'000);

// A state of so many bytes is copied within some 20 ms, which decisions can wait for.
inline constexpr std::uint64_t kMostCopied = std::uint64_t{16} << 20;

// The snapshot of a model at one moment (model_state.h), to be read once, piece by piece, on any
// thread, while the model goes on.
//
// A small state is copied. For a large one the process forks: the child sees the memory as it was,
// since the system copies a page only when the model changes it, cuts the state into pieces
// (base/piece_cutter.h), and sends those that the store does not know through a pipe. That takes
// neither the time nor the memory of a copy. The child does nothing else: it closes all other
// files, and it ends when nobody reads the pipe any more.
class SavedState {
 public:
  // Copies a state of at most `most_copied` bytes, or any state if the system refuses to fork.
  SavedState(Model& model, std::uint64_t store_id, std::uint64_t most_copied,
             std::shared_ptr<const KnownPieces> known = nullptr,
             std::chrono::milliseconds patience = kChildPatience);
  ~SavedState();
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  // True if the process forked: the state comes in pieces. Otherwise it comes as bytes.
  bool in_pieces() const { return !copied_; }
  // Its pieces. Reading them throws Error (kSystem) if the child ended early, or has sent nothing
  // for so long that the patience is over, which ends it. Borrows this object.
  PiecedState pieces();
  // Its bytes, and nothing at the second call.
  std::string_view next();

  // The number of bytes, if they were copied.
  std::optional<std::size_t> size() const;
  // What they take beside the model. Of a forked state an estimate: it grows with the learners that
  // learn until it is read.
  double memory_bytes() const { return memory_bytes_; }
  // 0 if the state was copied, or is read to its end.
  pid_t child() const { return child_; }

 private:
  bool fork_for(Model& model, std::uint64_t store_id);
  void end_child(bool early);
  std::optional<SnapshotPiece> next_piece();
  const char* read(std::size_t count);
  void await_bytes();

  std::string bytes_;     // the copy, or what was read from the pipe
  std::size_t used_ = 0;  // of what was read
  std::size_t read_ = 0;
  std::uint64_t store_id_;
  std::shared_ptr<const KnownPieces> known_;
  std::chrono::milliseconds patience_;
  bool copied_ = false;
  bool taken_ = false;  // the copy was handed out
  int pipe_ = -1;
  pid_t child_ = 0;
  double memory_bytes_ = 0.0;
};

}  // namespace mcnb
