#include "bench/alternating.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <functional>

#include "bench/learning_world.h"
#include "bench/limits.h"
#include "bench/load_client.h"
#include "bench/report.h"
#include "bench/serve_parts.h"
#include "mcnb/base/text_table.h"

namespace mcnb::bench {
namespace {

constexpr std::uint64_t kSlice = 1000;  // decisions of a run
constexpr std::size_t kConnections = 16;
constexpr std::uint64_t kWarmUp = 4;  // pairs of runs that are not counted

// Processor seconds of the calling thread.
double own_processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Requests {
 public:
  explicit Requests(const ModelOptions& options)
      : options_(options), world_(learning_scenarios().front(), 1) {}

  void next_slice() {
    bodies_.clear();
    for (std::uint64_t i = 0; i < kSlice; ++i) {
      bodies_.push_back(world_.round(next_++, options_).body);
    }
  }

  // Processor seconds of this process, without those of the client, for the decisions of the
  // present slice and their rewards.
  double play(const ServedModel& model) {
    const std::uint64_t first = next_ - kSlice;
    const double begin = processor_seconds() - own_processor_seconds();
    send(model, [&](std::uint64_t i) {
      return post("/v1/models/" + model.name + "/rank", bodies_[i]);
    });
    send(model, [&](std::uint64_t i) {
      return post(fmt::format("/v1/models/{}/events/{}/reward", model.name, first + i),
                  (first + i) % 3 == 0 ? R"({"value":1})" : R"({"value":0})");
    });
    return processor_seconds() - own_processor_seconds() - begin;
  }

 private:
  static void send(const ServedModel& model,
                   const std::function<std::string(std::uint64_t)>& request) {
    std::uint64_t next = 0;
    put_load(model.server->port(),
             {.connections = kConnections,
              .seconds = 600.0,
              .requests = kSlice,
              .next = [&](std::size_t, const std::string&) { return Exchange{request(next++)}; }});
  }

  ModelOptions options_;
  LearningWorld world_;
  std::uint64_t next_ = 0;
  std::vector<std::string> bodies_;
};

}  // namespace

AddedCost measure_added_cost(const ModelOptions& options, const ServedModel& without,
                             const ServedModel& with, std::uint64_t pairs) {
  Requests requests(options);
  AddedCost cost;
  for (std::uint64_t pair = 0; pair < kWarmUp + pairs; ++pair) {
    requests.next_slice();
    // In turn first, so that neither has an advantage.
    double alone = pair % 2 == 0 ? requests.play(without) : 0.0;
    const double more = requests.play(with);
    alone = pair % 2 == 0 ? alone : requests.play(without);
    if (pair >= kWarmUp) {
      cost.without += alone;
      cost.with += more;
      cost.ratios.push_back(more / alone);
    }
  }
  const auto decisions = static_cast<double>(pairs * kSlice);
  cost.without /= decisions;
  cost.with /= decisions;
  std::ranges::sort(cost.ratios);
  return cost;
}

void AddedCost::show(const std::string& what, Display& display) const {
  const double added = with / without - 1.0;
  const double middle = median(ratios) - 1.0;
  const double low = ratios[ratios.size() / 4] - 1.0;
  const double high = ratios[3 * ratios.size() / 4] - 1.0;
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100.0 * share); };
  TextTable shown({"processor time of a decision and its reward", "without", "with", "more",
                   "median of the pairs", "middle half", "pairs"});
  shown.add_row({what, milliseconds(without), milliseconds(with), percent(added), percent(middle),
                 percent(low) + " to " + percent(high), std::to_string(ratios.size())});
  TextTable exact({"added", "without_seconds", "with_seconds", "more", "median", "low_quartile",
                   "high_quartile", "pairs"});
  exact.add_row({what, fmt::format("{}", without), fmt::format("{}", with),
                 fmt::format("{}", added), fmt::format("{}", middle), fmt::format("{}", low),
                 fmt::format("{}", high), std::to_string(ratios.size())});
  display.show("added-cost", shown, exact);
}

}  // namespace mcnb::bench
