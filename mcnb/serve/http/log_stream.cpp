#include "mcnb/serve/http/log_stream.h"

#include <sstream>
#include <utility>

namespace mcnb {

LogStream::LogStream(std::string store, StoreLogOptions options, LogFormat format)
    : store_(std::move(store)), options_(std::move(options)), format_(format) {
  options_.goes_on = [this] { return !abandoned_.load(std::memory_order_relaxed); };
}

void LogStream::read(const std::function<void()>& ready) {
  bool is_ready = false;
  std::exception_ptr failure;
  std::ostringstream out;
  const auto pass_on = [&] {
    add(std::move(out).str());
    out.str({});
    if (!std::exchange(is_ready, true)) {
      ready();
    }
  };
  try {
    const std::unique_ptr<LogWriter> writer = make_log_writer(format_, out);
    read_store_log(store_, options_, [&](const LoggedRound& round) {
      writer->write(round);
      if (static_cast<std::size_t>(out.tellp()) >= kPieceBytes) {
        pass_on();
      }
    });
    if (!abandoned_) {
      writer->finish();
      pass_on();
    }
  } catch (...) {
    failure = std::current_exception();  // for `check` and `next`
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    failure_ = failure;
  }
  if (!is_ready) {
    ready();
  }
}

void LogStream::check() {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty() && failure_) {
    std::rethrow_exception(failure_);
  }
}

std::optional<std::string> LogStream::next() {
  const std::lock_guard lock(mutex_);
  if (!pieces_.empty()) {
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    taken_.notify_all();
    return piece;
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  return ended_ ? std::nullopt : std::optional<std::string>("");
}

void LogStream::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    pieces_.clear();
  }
  taken_.notify_all();
}

bool LogStream::is_over() {
  const std::lock_guard lock(mutex_);
  return ended_ && pieces_.empty();
}

// Waits until the client has taken enough of what is there.
void LogStream::add(std::string piece) {
  std::unique_lock lock(mutex_);
  taken_.wait(lock, [&] { return abandoned_ || pieces_.size() < kMostPieces; });
  if (!abandoned_ && !piece.empty()) {
    pieces_.push_back(std::move(piece));
  }
}

LogReaders::~LogReaders() {
  for (Reader& reader : readers_) {
    reader.log->abandon();
    reader.thread.join();
  }
}

bool LogReaders::start(const std::shared_ptr<LogStream>& log, const std::function<void()>& ready) {
  std::erase_if(readers_, [](Reader& reader) {
    const bool over = reader.log->is_over();
    if (over) {
      reader.thread.join();
    }
    return over;
  });
  if (readers_.size() >= kMost) {
    return false;
  }
  readers_.push_back({log, std::thread([log, ready] { log->read(ready); })});
  return true;
}

}  // namespace mcnb
