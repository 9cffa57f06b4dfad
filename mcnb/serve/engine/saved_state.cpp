#include "mcnb/serve/engine/saved_state.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <streambuf>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/model_state.h"

namespace mcnb {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr double kChangedShare = 0.1;  // of the pages, while a child sends them
constexpr int kNiceness = 10;          // requests go first

// Writes to a pipe. Ends the process if nobody reads it, since nothing else needs the process.
class PipeSink : public std::streambuf {
 public:
  explicit PipeSink(int pipe) : pipe_(pipe) {}

 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    xsputn(&byte, 1);
    return c;
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    for (std::streamsize done = 0; done < count;) {
      const ssize_t written = ::write(pipe_, bytes + done, static_cast<std::size_t>(count - done));
      if (written < 0 && errno != EINTR) {
        ::_exit(1);
      }
      done += std::max<ssize_t>(written, 0);
    }
    return count;
  }

 private:
  int pipe_;
};

// What the child does. Only the thread that forked exists in it, so it takes no locks; the
// allocator is safe to use after a fork. It keeps no file of the service open: a lock on the data
// folder would outlive the service.
[[noreturn]] void send_state(Model& model, std::uint64_t store_id, int pipe) {
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
    PipeSink sink(kOnly);
    std::ostream out(&sink);
    write_snapshot(out, model, store_id);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

SavedState::SavedState(Model& model, std::uint64_t store_id, std::uint64_t most_copied) {
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
  ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPiece));  // a smaller pipe works, too
  child_ = ::fork();
  if (child_ == 0) {
    send_state(model, store_id, ends[1]);
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

std::string_view SavedState::next() {
  if (copied_) {
    return std::exchange(taken_, true) ? std::string_view() : std::string_view(bytes_);
  }
  if (child_ == 0) {
    return {};
  }
  bytes_.resize(kPiece);
  std::size_t filled = 0;
  while (filled < bytes_.size()) {
    const ssize_t count = ::read(pipe_, bytes_.data() + filled, bytes_.size() - filled);
    if (count == 0) {
      end_child(false);
      break;
    }
    if (count < 0 && errno != EINTR) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("the pipe of a snapshot: {}", std::strerror(errno)));
    }
    filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  return std::string_view(bytes_).substr(0, filled);
}

std::optional<std::size_t> SavedState::size() const {
  return copied_ ? std::optional(bytes_.size()) : std::nullopt;
}

}  // namespace mcnb
