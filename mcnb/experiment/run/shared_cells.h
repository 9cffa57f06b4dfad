#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/experiment/run/cell_store.h"

namespace mcnb {

// This program's part of cells that programs on several machines run together. A thread of its own
// sends the heartbeats of the claims. Many threads may use it.
class SharedCells {
 public:
  struct Claimed {
    std::size_t index;  // in `cells`
    CellClaim claim;
  };
  // Takes the result of a finished cell from the store. Returns false if it cannot be read.
  using Collect = std::function<bool(std::size_t index)>;

  // `missing`: the cells without a result, by their indexes, in the order in which they are wanted.
  // Store, cells and `stop` are borrowed. Requires that the store has claims.
  SharedCells(const CellStore& store, const std::vector<Cell>& cells,
              const std::vector<std::size_t>& missing, const std::atomic<bool>& stop,
              Collect collect);
  ~SharedCells();
  SharedCells(const SharedCells&) = delete;
  SharedCells& operator=(const SharedCells&) = delete;

  // A cell for the caller to run; it waits while other programs run all that are left. Meanwhile it
  // collects what they finish. nullopt: all cells are collected, or `stop` is set.
  std::optional<Claimed> next();
  // Saves what came of a claimed cell, and collects it. If the claim ran out meanwhile, the result
  // of whoever took the cell counts, also for this program.
  void finish(const Claimed& claimed, const std::string& result);
  // Leaves a claimed cell to others.
  void give_back(const Claimed& claimed);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    std::size_t index;
    std::int64_t id;
  };

  std::optional<Claimed> look();
  bool collect(const Waiting& one);
  void hold(const CellClaim& claim);
  void release(const CellClaim& claim);
  void send_heartbeats();

  const CellStore& store_;
  CellClaims& claims_;
  const std::vector<Cell>& cells_;
  const std::atomic<bool>& stop_;
  Collect collect_;
  std::mutex mutex_;              // guards what follows
  std::vector<Waiting> waiting_;  // for a result, in this program or another
  Clock::time_point next_look_;
  std::mutex held_mutex_;  // guards what follows
  std::set<std::int64_t> held_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread heart_;
};

}  // namespace mcnb
