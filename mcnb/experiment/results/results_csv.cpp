#include "mcnb/experiment/results/results_csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <span>
#include <string_view>

#include "mcnb/base/error.h"
#include "mcnb/base/options.h"
#include "mcnb/base/text_table.h"
#include "mcnb/data/formats/text_fields.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

constexpr std::array<std::string_view, 18> kColumns = {
    "plan",           "environment",      "settings",     "policy", "rounds", "seeds",  "mean",
    "deviation",      "difference",       "low",          "high",   "p",      "holm_p", "seconds",
    "training_steps", "adaptation_steps", "memory_bytes", "as_run"};
constexpr std::size_t kRequired = 12;  // of these columns a file must have the first ones

// Reads the lines of one file by the names of its columns.
class ResultsReader {
 public:
  explicit ResultsReader(const std::string& header) {
    split_line(header);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto found = std::ranges::find(fields_, kColumns[i]);
      if (found == fields_.end() && i < kRequired) {
        throw RowError{fmt::format("expected a column {}", kColumns[i])};
      }
      columns_.push_back(static_cast<std::size_t>(found - fields_.begin()));
    }
    column_count_ = fields_.size();
  }

  ResultRow row(const std::string& line) {
    split_line(line);
    if (fields_.size() != column_count_) {
      refuse_column_count(column_count_, fields_.size());
    }
    ResultRow row{.plan = text("plan"),
                  .environment = text("environment"),
                  .settings = text("settings"),
                  .policy = text("policy"),
                  .rounds = count("rounds"),
                  .seeds = count("seeds"),
                  .mean = required("mean"),
                  .deviation = number("deviation"),
                  .difference = {},
                  .seconds = number("seconds"),
                  .training_steps = number("training_steps"),
                  .adaptation_steps = number("adaptation_steps"),
                  .memory_bytes = number("memory_bytes"),
                  .as_run = text("as_run")};
    if (const std::optional<double> mean = number("difference")) {
      row.difference = Difference{*mean, judged(*mean)};
    }
    return row;
  }

 private:
  void split_line(const std::string& line) { split_csv(line, ',', fields_, scratch_); }

  // Empty if the file does not have the column.
  std::string text(std::string_view column) const {
    const auto known = std::ranges::find(kColumns, column);
    const std::size_t field = columns_[static_cast<std::size_t>(known - kColumns.begin())];
    return field < fields_.size() ? std::string(fields_[field]) : "";
  }

  std::optional<double> number(std::string_view column) const {
    const std::string found = text(column);
    if (found.empty()) {
      return std::nullopt;
    }
    const std::optional<double> value = as_number(found);
    if (!value || !std::isfinite(*value)) {
      refuse_field(column, "a number or nothing", found);
    }
    return value;
  }

  double required(std::string_view column) const {
    const std::optional<double> value = number(column);
    if (!value) {
      refuse_field(column, "a number", "");
    }
    return *value;
  }

  std::uint64_t count(std::string_view column) const {
    const double value = required(column);
    if (value < 1.0 || value > 1e15 || value != std::floor(value)) {
      refuse_field(column, "a whole number from 1", text(column));
    }
    return static_cast<std::uint64_t>(value);
  }

  std::optional<PairedComparison> judged(double difference) const {
    const std::optional<double> low = number("low");
    const std::optional<double> high = number("high");
    const std::optional<double> p = number("p");
    if (!low && !high && !p) {
      return std::nullopt;
    }
    return PairedComparison{difference, required("low"), required("high"), required("p"),
                            required("p")};
  }

  std::vector<std::size_t> columns_;  // of kColumns, in the file
  std::size_t column_count_ = 0;
  std::vector<std::string_view> fields_;  // of the line read last
  std::string scratch_;
};

bool same_table(const ResultRow& a, const ResultRow& b) {
  return a.plan == b.plan && a.environment == b.environment && a.settings == b.settings &&
         a.rounds == b.rounds && a.seeds == b.seeds;
}

// The rows of each table, in the order of the file. Rows of several tables may alternate there.
std::vector<std::vector<ResultRow>> tables_in(const std::vector<ResultRow>& rows) {
  std::vector<std::vector<ResultRow>> tables;
  for (const ResultRow& row : rows) {
    const auto found = std::ranges::find_if(
        tables, [&](const auto& table) { return same_table(table.front(), row); });
    if (found == tables.end()) {
      tables.push_back({row});
    } else {
      found->push_back(row);
    }
  }
  return tables;
}

// The column holm_p of a file is not read: a table may have got more rows since it was written.
void correct_for_number(std::vector<ResultRow>& rows) {
  std::vector<bool> done(rows.size(), false);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<PairedComparison*> comparisons;
    for (std::size_t j = i; j < rows.size(); ++j) {
      if (done[j] || !same_table(rows[i], rows[j])) {
        continue;
      }
      done[j] = true;
      if (rows[j].difference && rows[j].difference->judged && rows[j].policy != kOracle) {
        comparisons.push_back(&*rows[j].difference->judged);
      }
    }
    correct_by_holm(comparisons);
  }
}

// The policy with the least regret, without the first and the oracle; nullptr if there is none.
const ResultRow* best_other(const std::vector<ResultRow>& table) {
  const ResultRow* best = nullptr;
  for (const ResultRow& row : std::span(table).subspan(1)) {
    if (row.policy != kOracle && (best == nullptr || row.mean < best->mean)) {
      best = &row;
    }
  }
  return best;
}

std::string for_people(std::string settings) {
  std::ranges::replace(settings, ':', ' ');
  return settings;
}

std::string overview(const std::vector<std::vector<ResultRow>>& tables) {
  TextTable table({"plan", "environment", "settings", "seeds", "first policy", "its regret",
                   "best other", "its regret", "difference [95 %]", "p", "Holm's p", "gain"});
  for (const std::vector<ResultRow>& rows : tables) {
    const ResultRow& first = rows.front();
    const ResultRow* const best = best_other(rows);
    if (best == nullptr) {
      continue;
    }
    const double gain = 100.0 * (best->mean - first.mean) / std::max(best->mean, 1e-9);
    table.add_row({first.plan, first.environment, for_people(first.settings),
                   std::to_string(first.seeds), first.policy,
                   with_deviation(first.mean, first.deviation), best->policy,
                   with_deviation(best->mean, best->deviation), difference_text(best->difference),
                   p_text(best->difference), holm_text(best->difference), percent_text(gain)});
  }
  return table.row_count() == 0 ? "" : "## Overview\n\n" + table.markdown() + "\n";
}

std::string policies_table(const std::vector<ResultRow>& rows) {
  const ResultRow& first = rows.front();
  TextTable table({"policy", "regret", "deviation", "difference [95 %]", "p", "Holm's p"});
  for (const ResultRow& row : rows) {
    table.add_row({row.policy, fmt::format("{:.1f}", row.mean),
                   row.deviation ? fmt::format("{:.1f}", *row.deviation) : "-",
                   difference_text(row.difference), p_text(row.difference),
                   holm_text(row.difference)});
  }
  return fmt::format("## {}: {}{}\n\n{} rounds, {} seed{}.\n\n{}\n", first.plan, first.environment,
                     first.settings.empty() ? "" : ", " + for_people(first.settings), first.rounds,
                     first.seeds, first.seeds == 1 ? "" : "s", table.markdown());
}

}  // namespace

std::string results_csv(const std::vector<ResultRow>& rows) {
  TextTable table({kColumns.begin(), kColumns.end()});
  for (const ResultRow& row : rows) {
    TableRow cells{row.plan, row.environment, row.settings, row.policy};
    cells.insert(cells.end(), {std::to_string(row.rounds), std::to_string(row.seeds),
                               number_text(row.mean), digits(row.deviation)});
    add_digits(cells, row.difference);
    for (const std::optional<double>& value :
         {row.seconds, row.training_steps, row.adaptation_steps, row.memory_bytes}) {
      cells.push_back(digits(value));
    }
    cells.push_back(row.as_run);
    table.add_row(std::move(cells));
  }
  return table.csv();
}

std::vector<ResultRow> read_results_csv(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected a CSV file of results, found nothing", path.string()));
  }
  const auto without_return = [](std::string text) {
    return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
  };
  std::size_t number = 1;
  try {
    ResultsReader reader(without_return(line));
    std::vector<ResultRow> rows;
    while (std::getline(file, line)) {
      ++number;
      if (line = without_return(line); !line.empty()) {
        rows.push_back(reader.row(line));
      }
    }
    correct_for_number(rows);
    return rows;
  } catch (const RowError& error) {
    throw Error(ErrorKind::kInput, fmt::format("{}:{}: {}", path.string(), number, error.message));
  }
}

std::string results_markdown(const std::vector<ResultRow>& rows) {
  const std::vector<std::vector<ResultRow>> tables = tables_in(rows);
  std::string text = overview(tables);
  for (const std::vector<ResultRow>& table : tables) {
    text += policies_table(table);
  }
  return text;
}

}  // namespace mcnb
