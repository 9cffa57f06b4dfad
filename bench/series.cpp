#include "bench/series.h"

#include "bench/alternating.h"
#include "bench/learning_players.h"
#include "bench/report.h"
#include "bench/serve_parts.h"
#include "mcnb/base/error.h"

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
}

}  // namespace mcnb::bench
