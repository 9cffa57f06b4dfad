#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mcnb/serve/engine/tasks.h"

namespace mcnb {

// Waiting tasks in one line for each client. Clients get equal shares of the estimated cost
// (deficit round robin): in turn, each may take tasks of `quantum` seconds, and what it does not
// take because its next task costs more is added to its next turn. Within a line the order stays.
class FairLines {
 public:
  explicit FairLines(double quantum) : quantum_(quantum) {}

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t size_of(const std::string& client) const;
  std::size_t clients() const { return lines_.size(); }
  void push(Task task);
  // The next task; nullopt if none waits.
  std::optional<Task> pop();
  // The client with the longest line, and the last task of a client's line. Require tasks.
  const std::string& longest() const;
  Task pop_last(const std::string& client);

 private:
  struct Line {
    std::string client;
    std::deque<Task> tasks;
    double credit = 0.0;  // seconds
  };
  using Lines = std::list<Line>;

  void remove(Lines::iterator line);

  double quantum_;
  Lines lines_;  // those with tasks; the first one's turn it is
  std::map<std::string, Lines::iterator, std::less<>> by_client_;
  bool has_turn_ = false;  // whether the first line got its quantum for this turn
  std::size_t size_ = 0;
};

// The queue between those who submit tasks and the thread that computes them. Large decisions,
// which are computed one at a time and in parts, have lines of their own: they hold up neither the
// small tasks of others nor those of their client. Safe from many threads.
class FairQueue {
 public:
  using Wait = std::chrono::milliseconds;

  struct Limits {
    std::size_t tasks = 1024;
    std::size_t bytes = std::size_t{256} << 20;
    double client_seconds = 10.0;  // estimated cost of all tasks of one client
  };
  explicit FairQueue(const Limits& limits);

  // Adds a task. Returns false, and leaves the task alone, if the queue is closed or full: of
  // tasks, of bytes, or of this client's tasks. A queue that is full of another client's tasks
  // gives up the last task of the longest line instead, which becomes `displaced`.
  bool try_push(Task&& task, std::optional<Task>& displaced);

  // Takes small tasks in their order until their cost reaches `seconds`: at least one if there is
  // one, and at most `most`. If all that waits is one client's, until it reaches `alone`. Waits so
  // long for the first; large tasks end the wait, too.
  std::vector<Task> take(double seconds, double alone, std::size_t most, Wait wait);
  std::optional<Task> take_large();

  std::size_t size() const;
  std::size_t bytes() const;
  void close();
  // Returns true if the queue is closed and everything has been taken.
  bool finished() const;

 private:
  bool has_room(const TaskBase& task) const;
  std::optional<Task> make_room(const TaskBase& task);
  void count_out(const TaskBase& task);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable added_;
  FairLines small_;
  FairLines large_;
  std::map<std::string, double, std::less<>> seconds_;  // by client: cost of its tasks
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace mcnb
