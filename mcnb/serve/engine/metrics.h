#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace mcnb {

// Counts values by range, as a histogram of Prometheus does. Safe from many threads. Why not
// prometheus-cpp 1.0.1: its Observe locks a mutex (40 ns, this one 9 ns) and needs civetweb and
// curl.
class Histogram {
 public:
  // `bounds` ascend; each is the largest value of its range.
  explicit Histogram(std::vector<double> bounds);

  void observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // Values in range `i`; the range bounds().size() has the values above all bounds.
  std::uint64_t count(std::size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0.0};
};

// What the engine counts; /metrics shows it. Safe from many threads.
struct Metrics {
  std::array<std::atomic<std::uint64_t>, 6> rewards{};  // by RewardOutcome
  std::atomic<std::int64_t> queued{0};                  // tasks that wait now
  std::atomic<std::uint64_t> queue_full{0};             // tasks refused
  std::atomic<std::uint64_t> waited_too_long{0};        // tasks refused
  std::atomic<std::uint64_t> large_decisions{0};        // computed in parts
  std::atomic<std::uint64_t> memory_bytes{0};           // ModelHost::memory_used
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> commit_failures{0};
  std::atomic<std::uint64_t> snapshots{0};
  std::atomic<std::uint64_t> snapshot_failures{0};
  std::atomic<std::uint64_t> verified_bytes{0};   // of the log, in the background
  std::atomic<std::uint64_t> verified_passes{0};  // over the whole log
  std::atomic<std::uint64_t> damaged{0};          // places of the log that are damaged now
  std::atomic<std::uint64_t> fits{0};             // that have ended
  std::atomic<double> last_fit_seconds{0.0};
  // The longest time for which decisions had to wait for other work on the models.
  std::atomic<double> longest_batch_seconds{0.0};
  // The longest such time, without the time in which the thread did not run.
  std::atomic<double> longest_batch_processor_seconds{0.0};
  Histogram commit_rows{{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}};
  Histogram commit_seconds{{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}};
  Histogram acknowledge_seconds{{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}};
  Histogram decisions_together{{1, 2, 4, 8, 16, 32, 64, 128, 256}};
};

}  // namespace mcnb
