#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "mcnb/serve/engine/model_host.h"

namespace mcnb {

// Counts values into ranges, as Prometheus wants them. Safe from many threads.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value);
  // In the text format, under a name, with labels such as `route="rank"` or none.
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;  // ascending
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0.0};
};

// The kinds of requests that are told apart.
enum class Route : std::uint8_t { kRank, kReward, kActivate, kAdmin, kOther };
inline constexpr std::array kRoutes{Route::kRank, Route::kReward, Route::kActivate, Route::kAdmin,
                                    Route::kOther};
const char* name_of(Route route);

// What /metrics shows besides the reports of the models. Safe from many threads.
struct Metrics {
  struct PerRoute {
    std::array<std::atomic<std::uint64_t>, 6> by_class{};  // of status: 2 for 2xx
    Histogram seconds{{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}};
  };
  std::array<PerRoute, kRoutes.size()> routes;
  std::array<std::atomic<std::uint64_t>, 6> rewards{};  // by RewardOutcome
  std::atomic<std::int64_t> queued{0};
  std::atomic<std::int64_t> connections{0};
  std::atomic<std::uint64_t> queue_full{0};
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> commit_failures{0};
  std::atomic<std::uint64_t> snapshots{0};
  std::atomic<std::uint64_t> snapshot_failures{0};
  Histogram commit_rows{{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}};
  Histogram commit_seconds{{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}};
  Histogram decisions_together{{1, 2, 4, 8, 16, 32, 64, 128, 256}};

  void observe_request(Route route, int status, double seconds);
  // The whole text of /metrics.
  std::string text(const std::vector<ModelReport>& models, std::uint64_t log_bytes,
                   bool ready) const;
};

}  // namespace mcnb
