#include "bench/evaluate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "bench/limits.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/base/random.h"
#include "mcnb/base/text_table.h"
#include "mcnb/evaluate/column_evaluation.h"
#include "mcnb/evaluate/estimate/estimator_sums.h"

namespace mcnb::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;
constexpr std::uint64_t kRowsInMemory = 4'000'000;  // 160 MB: more than any cache holds
constexpr std::size_t kRowsAtOnce = 1024;
constexpr int kTableRuns = 3;
constexpr int kMemoryRuns = 20;
constexpr double kTolerance = 1e-9;
constexpr const char* kPython = "/usr/bin/python3";  // Debian's has pandas
constexpr Estimator kTimed[] = {Estimator::kIps, Estimator::kSnips, Estimator::kDoublyRobust};

// All numbers are thousandths, so that a text of three digits has them exactly.
struct Thousandths {
  unsigned probability;
  unsigned policy;
  unsigned reward;
  unsigned model_logged;
  unsigned model_policy;
};

Thousandths decision(std::uint64_t number) {
  Rng rng(1, Stream::kTest, number);
  const auto draw = [&](unsigned low, unsigned high) {
    return low + static_cast<unsigned>(rng.below(high - low + 1));
  };
  return {draw(5, 200), draw(0, 200), rng.chance(0.004) ? 1000U : 0U, draw(0, 9), draw(0, 9)};
}

EvaluatedRow row_of(const Thousandths& one) {
  return {.weight = (one.policy / 1000.0) / (one.probability / 1000.0),
          .reward = one.reward / 1000.0,
          .model_logged = one.model_logged / 1000.0,
          .model_policy = one.model_policy / 1000.0};
}

void write_table(const fs::path& path, std::uint64_t rows) {
  std::ofstream file(path, std::ios::binary);
  std::string text =
      "item,position,probability,reward,policy_probability,model_logged,model_policy\n";
  for (std::uint64_t number = 0; number < rows; ++number) {
    const Thousandths one = decision(number);
    fmt::format_to(std::back_inserter(text), "{},{},0.{:03},{},0.{:03},0.{:03},0.{:03}\n",
                   number % 80, number % 3, one.probability, one.reward / 1000, one.policy,
                   one.model_logged, one.model_policy);
    if (text.size() >= kFlushBytes || number + 1 == rows) {
      file.write(text.data(), static_cast<std::streamsize>(text.size()));
      text.clear();
    }
  }
  if (!file.flush()) {
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot write", path.string()));
  }
}

// The values of kTimed by their formulas, from the numbers that the table was made of.
std::vector<double> plain_values(std::uint64_t rows) {
  double weights = 0.0;
  double earned = 0.0;
  double robust = 0.0;
  for (std::uint64_t number = 0; number < rows; ++number) {
    const EvaluatedRow row = row_of(decision(number));
    weights += row.weight;
    earned += row.weight * row.reward;
    robust += row.model_policy + row.weight * (row.reward - row.model_logged);
  }
  const auto count = static_cast<double>(rows);
  return {earned / count, earned / weights, robust / count};
}

void check_values(const Evaluation& evaluation, const std::vector<double>& expected) {
  const std::vector<PolicyEstimate>& found = evaluation.slots.front().policies.front().estimates;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(found[i].value - expected[i]) <= kTolerance)) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("{}: expected {}, found {}", name_of(found[i].estimator), expected[i],
                              found[i].value));
    }
  }
}

// The least processor time of some runs, which other programs on the machine hardly disturb.
template <class Work>
double processor_time(int runs, Work&& work) {
  double least = 1e30;
  for (int run = 0; run < runs; ++run) {
    const double begin = processor_seconds();
    work();
    least = std::min(least, processor_seconds() - begin);
  }
  return least;
}

// Seconds of processor time that pandas takes to read the columns that we use; 0 without pandas.
double pandas_seconds(const fs::path& table) {
  const std::vector<PeerRow> rows =
      run_peer(kPython, "read_columns.py", {table.string()}, {}, {"seconds"});
  return rows.empty() ? 0.0 : rows.front().numbers.at("seconds");
}

// Seconds of the estimators alone over rows in memory, and of reading as many bytes.
struct MemoryTimes {
  double estimators;
  double reading;
  std::size_t rows;
};
MemoryTimes time_in_memory(std::uint64_t count) {
  std::vector<EvaluatedRow> rows;
  for (std::uint64_t number = 0; number < std::min(count, kRowsInMemory); ++number) {
    rows.push_back(row_of(decision(number)));
  }
  double sum = 0.0;
  const double estimators = processor_time(kMemoryRuns, [&] {
    std::vector<EstimatorSums> all(std::begin(kTimed), std::end(kTimed));
    for (std::size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce) {
      const auto part = std::span(rows).subspan(begin, std::min(kRowsAtOnce, rows.size() - begin));
      for (EstimatorSums& sums : all) {
        sums.add(part);
      }
    }
    sum += all.front().value();
  });
  if (!std::isfinite(sum)) {
    throw Error(ErrorKind::kCorrupt, "the estimators did not find numbers");
  }
  ThreadPool one(1);
  ReadStream stream(one, rows.size() * sizeof(EvaluatedRow));
  const double reading = processor_time(kMemoryRuns, [&] { stream.read_once(); });
  return {estimators, reading, rows.size()};
}

void add_row(TextTable& table, const std::string& what, double rows, double seconds) {
  table.add_row(
      {what, fmt::format("{:.3f}", seconds), fmt::format("{:.1f}", rows / seconds / 1e6)});
}

}  // namespace

void bench_evaluate(const EvaluateBenchOptions& options) {
  require_within("--rows", options.rows, 1000, 1'000'000'000);
  make_output_folder(options.output);
  const fs::path table = fs::path(options.output) / "decisions.csv";
  write_table(table, options.rows);
  const Input input = Input::file(table);
  EvaluationOptions evaluation;
  evaluation.estimators.assign(std::begin(kTimed), std::end(kTimed));
  const std::size_t before = resident_memory();
  const std::vector<double> expected = plain_values(options.rows);
  check_values(evaluate_columns(input, evaluation, 0).evaluation, expected);
  const std::size_t taken = peak_memory() - before;
  const double ours = processor_time(kTableRuns, [&] { evaluate_columns(input, evaluation, 0); });
  const double pandas = options.peer ? pandas_seconds(table) : 0.0;
  const std::uintmax_t bytes = fs::file_size(table);
  fs::remove(table);
  const MemoryTimes memory = time_in_memory(options.rows);

  const auto rows = static_cast<double>(options.rows);
  TextTable times({"what", "processor s", "million rows/s"});
  add_row(times, "table -> IPS, SNIPS, DR with intervals", rows, ours);
  if (pandas > 0.0) {
    add_row(times, "pandas.read_csv, the same columns", rows, pandas);
  }
  const auto held = static_cast<double>(memory.rows);
  add_row(times, "memory -> IPS, SNIPS, DR", held, memory.estimators);
  add_row(times, "memory, only read", held, memory.reading);
  write_file(fs::path(options.output) / "bench-evaluate.csv", times.csv());
  fmt::print("{}\n{} rows, {}; at most {} of memory for the evaluation, one thread\n",
             times.aligned(), options.rows, gibibytes(bytes), gibibytes(taken));
  if (pandas > 0.0) {
    fmt::print("{:.1f} times as fast as pandas reads the columns; ", pandas / ours);
  }
  fmt::print("estimators: {:.1f} times the time of reading their rows\n",
             memory.estimators / memory.reading);
}

}  // namespace mcnb::bench
