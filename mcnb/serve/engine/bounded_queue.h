#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace mcnb {

// A first-in, first-out queue that holds at most `limit` items. Once it is closed, nothing can be
// added, but everything that is in it can still be taken. Safe from many threads.
template <class Item>
class BoundedQueue {
 public:
  using Wait = std::chrono::milliseconds;

  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  // Adds an item. Returns false and leaves the item alone if the queue is full or closed.
  bool try_push(Item&& item) { return push(std::move(item), Wait(0)); }

  // Adds an item, waiting for room at most so long. Returns false and leaves the item alone if
  // there was no room in that time or the queue is closed.
  bool push(Item&& item, Wait wait) {
    std::unique_lock lock(mutex_);
    taken_.wait_for(lock, wait, [this] { return closed_ || items_.size() < limit_; });
    if (closed_ || items_.size() >= limit_) {
      return false;
    }
    items_.push_back(std::move(item));
    lock.unlock();
    added_.notify_one();
    return true;
  }

  // Returns true as soon as an item could be added, false if that takes longer than `wait`.
  bool wait_for_room(Wait wait) {
    std::unique_lock lock(mutex_);
    return taken_.wait_for(lock, wait, [this] { return items_.size() < limit_; });
  }

  // Takes the first item, waiting for it at most so long. Returns nullopt if none came in that time
  // or the queue is finished.
  std::optional<Item> pop(Wait wait) {
    std::vector<Item> items = take(1, wait);
    return items.empty() ? std::nullopt : std::optional<Item>(std::move(items.front()));
  }

  // Takes the first items, at most `most`, waiting for the first one at most so long. Returns an
  // empty vector if none came in that time or the queue is finished.
  std::vector<Item> take(std::size_t most, Wait wait) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, wait, [this] { return closed_ || !items_.empty(); });
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(std::min(most, items_.size()));
    std::vector<Item> items(std::move_iterator(items_.begin()), std::move_iterator(end));
    items_.erase(items_.begin(), end);
    lock.unlock();
    taken_.notify_all();
    return items;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    added_.notify_all();
    taken_.notify_all();
  }

  // Returns true if the queue is closed and everything has been taken: no item will ever come.
  bool finished() const {
    const std::lock_guard lock(mutex_);
    return closed_ && items_.empty();
  }

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable taken_;
  std::deque<Item> items_;
  bool closed_ = false;
};

}  // namespace mcnb
