#include "mcnb/serve/engine/saved_state.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/framed_state.h"
#include "mcnb/base/piece_cutter.h"
#include "mcnb/base/wide_hash.h"
#include "mcnb/serve/model/model_state.h"

namespace mcnb {
namespace {

constexpr std::size_t kPipeBytes = std::size_t{1} << 20;
constexpr double kChangedShare = 0.1;  // of the pages, while a child sends them
constexpr int kNiceness = 10;          // requests go first

// Stands before each piece in the pipe.
struct PieceHead {
  PieceName name;
  std::uint32_t size = 0;
  std::uint32_t is_known = 0;  // 1: no bytes follow
};

// Writes to a pipe. Ends the process if nobody reads it, since nothing else needs the process.
class Pipe {
 public:
  explicit Pipe(int pipe) : pipe_(pipe) { begun_.reserve(2 * kPipeBytes); }

  void write(const void* bytes, std::size_t count) {
    begun_.append(static_cast<const char*>(bytes), count);
    if (begun_.size() >= kPipeBytes) {
      flush();
    }
  }
  void flush() {
    for (std::size_t done = 0; done < begun_.size();) {
      const ssize_t written = ::write(pipe_, begun_.data() + done, begun_.size() - done);
      if (written < 0 && errno != EINTR) {
        ::_exit(1);
      }
      done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    }
    begun_.clear();
  }

 private:
  int pipe_;
  std::string begun_;
};

void send_pieces(Model& model, std::uint64_t store_id, const KnownPieces* known, int pipe) {
  Pipe sink(pipe);
  PieceCutter cutter([&](std::string_view piece) {
    const WideHash hash = wide_hash(piece, store_id);
    PieceHead head{{hash.low, hash.high}, static_cast<std::uint32_t>(piece.size())};
    head.is_known = known != nullptr && known->has(head.name) ? 1 : 0;
    sink.write(&head, sizeof head);
    if (head.is_known == 0) {
      sink.write(piece.data(), piece.size());
    }
  });
  StateContents contents([&](std::string_view part) { cutter.add(part); });
  std::ostream out(&contents);
  out.exceptions(std::ios::badbit);
  write_snapshot(out, model, store_id);
  cutter.finish();
  sink.flush();
}

// What the child does. Only the thread that forked exists in it, so it takes no locks; the
// allocator is safe to use after a fork. It keeps no file of the service open: a lock on the data
// folder would outlive the service.
[[noreturn]] void send_state(Model& model, std::uint64_t store_id, const KnownPieces* known,
                             int pipe) {
  constexpr int kOnly = 3;
  if (pipe != kOnly && ::dup2(pipe, kOnly) < 0) {
    ::_exit(1);
  }
  ::close_range(0, kOnly - 1, 0);
  ::close_range(kOnly + 1, ~0U, 0);
  // The service decides when the child ends. Without a reader it must end, too.
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  try {
    send_pieces(model, store_id, known, kOnly);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

SavedState::SavedState(Model& model, std::uint64_t store_id, std::uint64_t most_copied,
                       std::shared_ptr<const KnownPieces> known, std::chrono::milliseconds patience)
    : store_id_(store_id), known_(std::move(known)), patience_(patience) {
  model.learn_now();
  const std::size_t size = model.memory_bytes();
  if (size > most_copied && fork_for(model, store_id)) {
    memory_bytes_ = kChangedShare * static_cast<double>(size);
    return;
  }
  bytes_ = snapshot_bytes(model, store_id);
  copied_ = true;
  memory_bytes_ = static_cast<double>(bytes_.size());
}

SavedState::~SavedState() {
  if (child_ > 0) {
    end_child(true);
  }
}

// Returns false if the system refuses.
bool SavedState::fork_for(Model& model, std::uint64_t store_id) {
  struct sigaction children {};
  if (::sigaction(SIGCHLD, nullptr, &children) == 0 && children.sa_handler == SIG_IGN) {
    ::signal(SIGCHLD, SIG_DFL);  // inherited; nobody would be told how the child ended
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPipeBytes));  // a smaller pipe works, too
  child_ = ::fork();
  if (child_ == 0) {
    send_state(model, store_id, known_.get(), ends[1]);
  }
  ::close(ends[1]);
  if (child_ < 0) {
    ::close(ends[0]);
    child_ = 0;
    return false;
  }
  pipe_ = ends[0];
  return true;
}

// Waits for the child. Throws if it did not send everything, unless it is ended early.
void SavedState::end_child(bool early) {
  ::close(std::exchange(pipe_, -1));
  const pid_t child = std::exchange(child_, 0);
  if (early) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  pid_t ended = -1;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (!early && (ended != child || status != 0)) {
    throw Error(ErrorKind::kSystem,
                fmt::format("the process that sends a snapshot ended early: {}",
                            WIFSIGNALED(status) ? ::sigdescr_np(WTERMSIG(status))
                                                : "the state cannot be saved"));
  }
}

PiecedState SavedState::pieces() {
  return {store_id_, known_, [this] { return next_piece(); }};
}

std::optional<SnapshotPiece> SavedState::next_piece() {
  if (child_ == 0) {
    return std::nullopt;
  }
  const char* bytes = read(sizeof(PieceHead));
  if (bytes == nullptr) {
    end_child(false);
    return std::nullopt;
  }
  PieceHead head;
  std::memcpy(&head, bytes, sizeof head);
  SnapshotPiece piece{head.name, head.size, {}};
  if (head.is_known == 0) {
    bytes = read(head.size);
    if (bytes == nullptr) {
      end_child(false);
      throw Error(ErrorKind::kSystem, "the process that sends a snapshot left a piece unfinished");
    }
    piece.bytes = {bytes, head.size};
  }
  return piece;
}

void SavedState::await_bytes() {
  pollfd ready{pipe_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience_.count())) == 0) {
    end_child(true);
    throw Error(ErrorKind::kSystem,
                fmt::format("the process that sends a snapshot has sent nothing for {} s: it was "
                            "ended",
                            std::chrono::duration<double>(patience_).count()));
  }
}

// The next bytes from the pipe, valid until the next call; nullptr if it ends before.
const char* SavedState::read(std::size_t count) {
  if (read_ - used_ < count) {
    std::memmove(bytes_.data(), bytes_.data() + used_, read_ - used_);
    read_ -= std::exchange(used_, 0);
    bytes_.resize(kPipeBytes);
  }
  while (read_ - used_ < count) {
    await_bytes();
    const ssize_t got = ::read(pipe_, bytes_.data() + read_, bytes_.size() - read_);
    if (got == 0) {
      return nullptr;
    }
    if (got < 0 && errno != EINTR) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("the pipe of a snapshot: {}", std::strerror(errno)));
    }
    read_ += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return bytes_.data() + std::exchange(used_, used_ + count);
}

std::string_view SavedState::next() {
  return !copied_ || std::exchange(taken_, true) ? std::string_view() : std::string_view(bytes_);
}

std::optional<std::size_t> SavedState::size() const {
  return copied_ ? std::optional(bytes_.size()) : std::nullopt;
}

}  // namespace mcnb
