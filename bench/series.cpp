#include "bench/series.h"

#include <fmt/core.h>

#include <vector>

#include "bench/alternating.h"
#include "bench/learning_players.h"
#include "bench/limits.h"
#include "bench/report.h"
#include "bench/serve_parts.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/text_table.h"
#include "mcnb/serve/series/series_book.h"

namespace mcnb::bench {
namespace {

constexpr const char* kModel = "model";

ServerOptions service(const ModelOptions& model, const std::filesystem::path& folder, bool series) {
  ServerOptions options;
  options.data = folder.string();
  options.port = 0;
  options.threads = 1;
  options.connections_per_address = 0;
  options.models[kModel] = model;
  options.request_lines = 0.0;
  options.series = series;
  return options;
}

// Processor seconds for which the book alone is busy with a decision and its reward, with as many
// different actions as it names and more.
double recording_seconds() {
  constexpr std::uint64_t kBatches = 20'000;
  constexpr std::uint64_t kTogether = 16;  // decisions of a batch, and the rewards of the last one
  SeriesBook book;
  std::vector<Observation> batch;
  const double begin = processor_seconds();
  for (std::uint64_t number = 0; number < kBatches; ++number) {
    batch.clear();
    for (std::uint64_t i = number * kTogether; i < (number + 1) * kTogether; ++i) {
      batch.emplace_back(DecisionSeen{.model = 1,
                                      .event = 0x9e3779b97f4a7c15 * (i + 1),
                                      .user = i % 1000,
                                      .time = static_cast<std::int64_t>(i),
                                      .propensity = 0.5F,
                                      .actions = 10,
                                      .first = i % 10 == 0,
                                      .explored = i % 7 == 0,
                                      .action = "action-" + std::to_string(i % 40)});
      if (i >= kTogether) {
        batch.emplace_back(EventEnded{1, 0x9e3779b97f4a7c15 * (i + 1 - kTogether),
                                      static_cast<float>(i % 2), true});
      }
    }
    book.record(batch);
  }
  check(book.model(1, kResolutions[0]).buckets.size() == kBatches * kTogether / 10'000,
        "the book has what it was told");
  return (processor_seconds() - begin) / static_cast<double>(kBatches * kTogether);
}

void show_recording(double seconds, double of, Display& display) {
  TextTable shown({"processor time of a decision and its reward", "the book alone", "its share"});
  shown.add_row({milliseconds(of), fmt::format("{:.2f} us", 1e6 * seconds),
                 fmt::format("{:.2f} %", 100.0 * seconds / of)});
  TextTable exact({"seconds", "recording_seconds", "share"});
  exact.add_row({fmt::format("{}", of), fmt::format("{}", seconds),
                 fmt::format("{}", seconds / of)});
  display.show("recording", shown, exact);
}

}  // namespace

void bench_series(const SeriesBenchOptions& options, Display& display) {
  require_within("--slices", options.slices, 1, 10'000);
  const ModelOptions model = learning_model(parse_policy(options.policy), 1);
  make_output_folder(options.output);
  const Folder folder(options.output);
  const Server without(service(model, folder.path() / "without", false));
  const Server with(service(model, folder.path() / "with", true));
  const AddedCost cost =
      measure_added_cost(model, {&without, kModel}, {&with, kModel}, options.slices);
  cost.show("time series, " + options.policy, display);
  show_recording(recording_seconds(), cost.without, display);
}

}  // namespace mcnb::bench
