#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/serve/model/model.h"

namespace mcnb {

// A state of so many bytes is copied within some 20 ms, which decisions can wait for.
inline constexpr std::uint64_t kMostCopied = std::uint64_t{16} << 20;

// The snapshot of a model at one moment (model_state.h), to be read once, piece by piece, on any
// thread, while the model goes on.
//
// A small state is copied. For a large one the process forks: the child sees the memory as it was,
// since the system copies a page only when the model changes it, and sends the bytes through a
// pipe. That takes neither the time nor the memory of a copy. The child does nothing else: it
// closes all other files, and it ends when nobody reads the pipe any more.
class SavedState {
 public:
  // Copies a state of at most `most_copied` bytes, or any state if the system refuses to fork.
  SavedState(Model& model, std::uint64_t store_id, std::uint64_t most_copied);
  ~SavedState();
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  // The next piece, valid until the next call; empty at the end. Throws Error (kSystem) if the
  // child ended early.
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

  std::string bytes_;  // the copy, or the last piece
  bool copied_ = false;
  bool taken_ = false;  // the copy was handed out
  int pipe_ = -1;
  pid_t child_ = 0;
  double memory_bytes_ = 0.0;
};

}  // namespace mcnb
