#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mcnb/storage/postgres.h"

namespace mcnb {

// SQLSTATE of a transaction whose lease another node has.
inline constexpr const char* kLeaseTaken = "MC001";

// A session of the service that comes back after it was lost. Before the new one is used, the old
// one is ended on the server: what it had begun happens now or never. Lock `mutex` around all
// calls.
class PostgresSession {
 public:
  // Connects when it is first used. `synchronous`: a commit is answered when it is on disk, and on
  // the synchronous standby if there is one.
  PostgresSession(std::string url, bool synchronous)
      : url_(std::move(url)), synchronous_(synchronous) {}

  // From the next connection on the server calls the session so (pg_stat_activity).
  void call(const std::string& application) { application_ = application; }

  // The connection; a new one if the last one was lost. Throws PostgresError.
  PostgresConnection& open();
  // True if a connection was lost since the last `open`.
  bool lost() const { return connection_ && connection_->lost(); }

  // Runs what only reads; once more if the connection turns out to be lost.
  template <class Work>
  auto read(Work work) {
    try {
      return work(open());
    } catch (const PostgresError& error) {
      if (!error.lost()) {
        throw;
      }
    }
    return work(open());
  }

  // Runs what `fill` sends in one transaction that holds the lease of this epoch, and returns the
  // results of what it sent. All or nothing; if the error says that the connection was lost, nobody
  // knows. A commit with a warning is none: the server may have given up waiting for its standby.
  std::vector<PostgresRows> commit(std::int64_t epoch,
                                   const std::function<void(PostgresConnection& connection)>& fill);
  // Ends a transaction that has begun on the connection in the same way.
  void end_commit(std::int64_t epoch);

  std::mutex mutex;

 private:
  void begin_session();
  void refuse_warnings();
  void end_old_session();

  std::string url_;
  bool synchronous_;
  std::string application_ = "mcnb";
  std::unique_ptr<PostgresConnection> connection_;
  std::int64_t process_ = 0;  // of the server, for the last session
  std::int64_t started_ = 0;  // when it began, in microseconds
};

}  // namespace mcnb
