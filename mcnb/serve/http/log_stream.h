#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/logs/log_writer.h"
#include "mcnb/serve/store_log.h"

namespace mcnb {

// The log of a model as a body that comes into being: a reader on a thread of its own stays a few
// pieces ahead of the client.
class LogStream {
 public:
  // `store` as of read_store_log.
  LogStream(std::string store, StoreLogOptions options, LogFormat format);
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;

  // Reads the log to its end, or until it is abandoned. `ready` is called once, when the first
  // piece is there or the reading has ended.
  void read(const std::function<void()>& ready);

  // For the client's side, as everything that follows. Throws what `read` met before its first
  // piece. Call it when `ready` was called.
  void check();
  // The next piece, as of BodyStream. Throws what `read` met after the pieces before it.
  std::optional<std::string> next();
  // Nobody wants the rest.
  void abandon();
  // True if `read` has ended, and nobody waits for a piece.
  bool is_over();

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{128} << 10;
  static constexpr std::size_t kMostPieces = 16;

  void add(std::string piece);

  std::string store_;
  StoreLogOptions options_;
  LogFormat format_;
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::condition_variable taken_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  std::exception_ptr failure_;
};

// The readers of logs that are being sent. For the server's thread, which they never keep waiting:
// a reader that is stuck in its database counts as one until it is free.
class LogReaders {
 public:
  static constexpr std::size_t kMost = 4;

  LogReaders() = default;
  // Waits until all have stopped.
  ~LogReaders();
  LogReaders(const LogReaders&) = delete;
  LogReaders& operator=(const LogReaders&) = delete;

  // Begins to read on a new thread (LogStream::read). Returns false if there are too many readers.
  bool start(const std::shared_ptr<LogStream>& log, const std::function<void()>& ready);

 private:
  struct Reader {
    std::shared_ptr<LogStream> log;
    std::thread thread;
  };
  std::vector<Reader> readers_;
};

}  // namespace mcnb
