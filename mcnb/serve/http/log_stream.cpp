#include "mcnb/serve/http/log_stream.h"

#include <sstream>
#include <utility>

namespace mcnb {

std::shared_ptr<LogStream> LogStream::start(std::filesystem::path folder, StoreLogOptions options,
                                            LogFormat format,
                                            std::shared_ptr<LogStreamLimit> limit) {
  if (limit->running.fetch_add(1) >= LogStreamLimit::kMost) {
    limit->running.fetch_sub(1);
    return nullptr;
  }
  return std::shared_ptr<LogStream>(
      new LogStream(std::move(folder), std::move(options), format, std::move(limit)));
}

LogStream::LogStream(std::filesystem::path folder, StoreLogOptions options, LogFormat format,
                     std::shared_ptr<LogStreamLimit> limit)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      format_(format),
      limit_(std::move(limit)) {
  options_.goes_on = [this] { return !abandoned_.load(std::memory_order_relaxed); };
}

LogStream::~LogStream() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    more_ = {};
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  limit_->running.fetch_sub(1);
}

std::optional<std::string> LogStream::next(std::function<void()> more) {
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
  }
  const std::lock_guard lock(mutex_);
  if (!pieces_.empty()) {
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  if (ended_) {
    return std::string();
  }
  more_ = std::move(more);
  return std::nullopt;
}

void LogStream::run() {
  std::exception_ptr failure;
  try {
    read();
  } catch (...) {
    failure = std::current_exception();  // for `next`
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  failure_ = failure;
  if (more_) {
    std::exchange(more_, {})();
  }
}

void LogStream::read() {
  std::ostringstream out;
  const auto pass_on = [&] {
    add(std::move(out).str());
    out.str({});
  };
  const std::unique_ptr<LogWriter> writer = make_log_writer(format_, out);
  read_store_log(folder_, options_, [&](const LoggedRound& round) {
    writer->write(round);
    if (static_cast<std::size_t>(out.tellp()) >= kPieceBytes) {
      pass_on();
    }
  });
  writer->finish();
  pass_on();
}

// Waits until the client has taken enough of what is there.
void LogStream::add(std::string piece) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return abandoned_ || pieces_.size() < kMostPieces; });
  if (abandoned_ || piece.empty()) {
    return;
  }
  pieces_.push_back(std::move(piece));
  if (more_) {
    std::exchange(more_, {})();
  }
}

}  // namespace mcnb
