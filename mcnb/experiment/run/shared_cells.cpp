#include "mcnb/experiment/run/shared_cells.h"

#include <algorithm>
#include <span>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

constexpr std::size_t kCellsAtOnce = 500;  // in one statement
constexpr auto kLookPause = std::chrono::seconds(1);
constexpr auto kStopPause = std::chrono::milliseconds(50);
constexpr std::chrono::duration<double> kHeartbeatPause(kClaimSeconds / 6.0);

}  // namespace

SharedCells::SharedCells(const CellStore& store, const std::vector<Cell>& cells,
                         const std::vector<std::size_t>& missing, const std::atomic<bool>& stop,
                         Collect collect)
    : store_(store),
      claims_(*store.claims()),
      cells_(cells),
      stop_(stop),
      collect_(std::move(collect)) {
  for (std::size_t begin = 0; begin < missing.size(); begin += kCellsAtOnce) {
    const std::size_t count = std::min(kCellsAtOnce, missing.size() - begin);
    std::vector<CellRow> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(store.row_of(cells[missing[begin + i]]));
    }
    const std::vector<std::int64_t> ids = claims_.announce(rows);
    check(ids.size() == count, "every announced cell has an id");
    for (std::size_t i = 0; i < count; ++i) {
      waiting_.push_back({missing[begin + i], ids[i]});
    }
  }
  heart_ = std::thread([this] { send_heartbeats(); });
}

SharedCells::~SharedCells() {
  {
    const std::lock_guard lock(held_mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  heart_.join();
}

std::optional<SharedCells::Claimed> SharedCells::next() {
  while (!stop_) {
    {
      const std::lock_guard lock(mutex_);
      if (Clock::now() >= next_look_) {
        if (std::optional<Claimed> claimed = look()) {
          return claimed;
        }
        next_look_ = Clock::now() + kLookPause;
      }
      if (waiting_.empty()) {
        return std::nullopt;
      }
    }
    std::this_thread::sleep_for(kStopPause);
  }
  return std::nullopt;
}

// Claims the first cell that is free. Collects the finished ones that it meets before.
std::optional<SharedCells::Claimed> SharedCells::look() {
  for (std::size_t begin = 0; begin < waiting_.size();) {
    const std::size_t count = std::min(kCellsAtOnce, waiting_.size() - begin);
    std::vector<std::int64_t> ids;
    for (const Waiting& one : std::span(waiting_).subspan(begin, count)) {
      ids.push_back(one.id);
    }
    if (const std::optional<CellClaim> claim = claims_.claim(ids)) {
      hold(*claim);
      return Claimed{std::ranges::find(waiting_, claim->cell, &Waiting::id)->index, *claim};
    }
    const std::vector<std::int64_t> finished = claims_.finished(ids);
    const auto first = waiting_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = first + static_cast<std::ptrdiff_t>(count);
    const auto left = std::remove_if(first, last, [&](const Waiting& one) {
      return std::ranges::count(finished, one.id) > 0 && collect(one);
    });
    begin += static_cast<std::size_t>(left - first);
    waiting_.erase(left, last);
  }
  return std::nullopt;
}

// A result that is damaged, or that this run does not accept, is dropped; the cell is then free.
bool SharedCells::collect(const Waiting& one) {
  if (collect_(one.index)) {
    return true;
  }
  if (const std::optional<std::string> text = store_.find_text(cells_[one.index])) {
    claims_.discard(one.id, *text);
  }
  return false;
}

void SharedCells::finish(const Claimed& claimed, const std::string& result) {
  const bool is_saved = claims_.finish(claimed.claim, result);
  release(claimed.claim);
  if (is_saved) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_,
                  [&](const Waiting& one) { return one.index == claimed.index && collect(one); });
  }
}

void SharedCells::give_back(const Claimed& claimed) {
  release(claimed.claim);
  try {
    claims_.give_back(claimed.claim);
  } catch (const Error&) {  // the claim runs out without heartbeats
  }
}

void SharedCells::hold(const CellClaim& claim) {
  const std::lock_guard lock(held_mutex_);
  held_.insert(claim.number);
}

void SharedCells::release(const CellClaim& claim) {
  const std::lock_guard lock(held_mutex_);
  held_.erase(claim.number);
}

void SharedCells::send_heartbeats() {
  std::unique_lock lock(held_mutex_);
  while (!wake_.wait_for(lock, kHeartbeatPause, [&] { return ending_; })) {
    const std::vector<std::int64_t> numbers(held_.begin(), held_.end());
    lock.unlock();
    try {
      if (!numbers.empty()) {
        claims_.beat(numbers);
      }
    } catch (const Error&) {  // the claims run out; those who finish them notice
    }
    lock.lock();
  }
}

}  // namespace mcnb
