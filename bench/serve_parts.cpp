#include "bench/serve_parts.h"

#include <fmt/core.h>

#include <cstdio>

#include "bench/report.h"
#include "mcnb/base/random.h"

namespace mcnb::bench {
namespace {

std::string features_text(Rng& rng, std::uint64_t count) {
  std::string text = "[";
  for (std::uint64_t i = 0; i < count; ++i) {
    text += fmt::format("{}{:.4f}", i == 0 ? "" : ",", rng.normal());
  }
  return text + "]";
}

}  // namespace

std::string actions_text(std::uint64_t features, std::uint64_t number, std::uint64_t actions) {
  Rng rng(1, Stream::kBenchmark, number);
  std::string text;
  for (std::uint64_t i = 0; i < actions; ++i) {
    text += fmt::format("{}{{\"id\":\"item-{}\",\"features\":{}}}", i == 0 ? "" : ",", i,
                        features_text(rng, features));
  }
  return text;
}

std::string mcnb_policy(const ServeBenchOptions& options, const std::string& more) {
  return fmt::format("mcnb:width={}:feedback=served{}{}", options.width, more.empty() ? "" : ":",
                     more);
}

ModelOptions model_options(const ServeBenchOptions& options, std::uint64_t groups,
                           const std::string& policy) {
  ModelOptions model;
  model.dimension = options.features;
  model.groups = groups;
  model.policy = parse_policy(policy);
  return model;
}

ModelOptions mcnb_options(const ServeBenchOptions& options, std::uint64_t groups) {
  return model_options(options, groups, mcnb_policy(options, options.policy));
}

void Report::add(const std::string& what, double per_second, const LoadResult& load,
                 const std::string& note) {
  const bool timed = load.answers > 0;
  const auto answers = static_cast<double>(load.answers);
  table_.add_row({what, per_second > 0 ? fmt::format("{:.0f}", per_second) : "",
                  timed ? milliseconds(load.p50) : "", timed ? milliseconds(load.p99) : "",
                  timed ? milliseconds(load.processor_seconds / answers) : "", note});
  fmt::print("{}: {:.0f}/s, p50 {:.3f} ms, p99 {:.3f} ms {}\n", what, per_second, load.p50 * 1e3,
             load.p99 * 1e3, note);
  std::fflush(stdout);
}

}  // namespace mcnb::bench
