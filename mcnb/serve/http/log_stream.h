#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "mcnb/logs/log_writer.h"
#include "mcnb/serve/http/body_stream.h"
#include "mcnb/serve/store_log.h"

namespace mcnb {

// How many log streams may run at once, and how many do. Shared by the handlers and the streams.
struct LogStreamLimit {
  static constexpr int kMost = 4;
  std::atomic<int> running = 0;
};

// The log of a model as a body: a thread of its own reads the data folder beside the service and
// stays a few pieces ahead of the client.
class LogStream : public BodyStream {
 public:
  // Nothing if too many run already. The thread starts with the first call of `next`.
  static std::shared_ptr<LogStream> start(std::filesystem::path folder, StoreLogOptions options,
                                          LogFormat format, std::shared_ptr<LogStreamLimit> limit);
  ~LogStream() override;
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;

  std::optional<std::string> next(std::function<void()> more) override;

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
  static constexpr std::size_t kMostPieces = 4;

  LogStream(std::filesystem::path folder, StoreLogOptions options, LogFormat format,
            std::shared_ptr<LogStreamLimit> limit);
  void run();
  void read();
  void add(std::string piece);

  std::filesystem::path folder_;
  StoreLogOptions options_;
  LogFormat format_;
  std::shared_ptr<LogStreamLimit> limit_;
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::function<void()> more_;  // of a caller that waits
  std::thread thread_;
};

}  // namespace mcnb
