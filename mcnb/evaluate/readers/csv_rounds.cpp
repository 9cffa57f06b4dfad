// Tables of one's own: a row for each round (docs/EVALUATION.md).

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "mcnb/base/error.h"
#include "mcnb/base/json_writer.h"
#include "mcnb/data/formats/text_reader.h"
#include "mcnb/evaluate/readers/line_readers.h"
#include "mcnb/logs/timestamps.h"

namespace mcnb {
namespace {

enum class Column {
  kEvent,
  kUser,
  kTime,
  kSlot,
  kAction,
  kProbability,
  kReward,
  kActions,
  kRound,
  kContext
};

const std::map<std::string_view, Column> kColumns = {
    {"event", Column::kEvent},   {"user", Column::kUser},
    {"time", Column::kTime},     {"slot", Column::kSlot},
    {"action", Column::kAction}, {"probability", Column::kProbability},
    {"reward", Column::kReward}, {"actions", Column::kActions},
    {"round", Column::kRound}};

constexpr std::size_t kMostIds = 10'000;

// A row of a table whose columns are known.
struct Row {
  std::vector<std::string_view> fields;
  std::string scratch;

  void split(std::string_view line, std::size_t columns) {
    split_csv(line, ',', fields, scratch);
    if (fields.size() != columns) {
      refuse_column_count(columns, fields.size());
    }
  }
};

double number_in(std::string_view name, std::string_view text) {
  const double number = parse_double(text);
  if (!std::isfinite(number)) {
    refuse_field(name, "a finite number", text);
  }
  return number;
}

class CsvReader : public LineReader {
 public:
  CsvReader(std::string_view header, const Input& input) {
    Row row;
    split_csv(header, ',', row.fields, row.scratch);
    for (const std::string_view field : row.fields) {
      const auto known = kColumns.find(field);
      names_.emplace_back(field);
      columns_.push_back(known == kColumns.end() ? Column::kContext : known->second);
    }
    for (const Column column : {Column::kAction, Column::kProbability, Column::kReward}) {
      if (std::ranges::count(columns_, column) != 1) {
        throw Error(ErrorKind::kInput, "expected the columns action, probability and reward, once");
      }
    }
    if (std::ranges::count(columns_, Column::kRound) == 0 &&
        std::ranges::count(columns_, Column::kActions) == 0) {
      find_actions(input);
    }
  }

  void read(std::string_view line, const VisitRound& visit, const LeaveOut&) override {
    row_.split(line, columns_.size());
    const auto whole = std::ranges::find(columns_, Column::kRound);
    if (whole != columns_.end()) {
      const std::string_view json = row_.fields[static_cast<std::size_t>(whole - columns_.begin())];
      padded_ = simdjson::padded_string(json);
      read_json_round(json::parse_line(parser_, std::string_view(padded_)), round_);
    } else {
      read_row();
    }
    visit(round_);
  }

 private:
  // The actions of a table are those that any of its rows chose, in the order of their ids.
  void find_actions(const Input& input) {
    ThreadPool threads(1);
    TextReader text(input, threads);
    text.skip_line();
    const auto column =
        static_cast<std::size_t>(std::ranges::find(columns_, Column::kAction) - columns_.begin());
    std::map<std::string, bool, std::less<>> ids;
    while (const auto line = text.peek_line()) {
      try {
        row_.split(*line, columns_.size());
        const std::string_view id = row_.fields[column];
        if (!id.empty() && ids.find(id) == ids.end()) {
          ids.emplace(id, true);
        }
      } catch (const RowError&) {
        // `read` refuses this line.
      }
      if (ids.size() > kMostIds) {
        text.refuse_line(fmt::format("expected at most {} different actions", kMostIds));
      }
      text.skip_line();
    }
    for (const auto& [id, present] : ids) {
      actions_.push_back({id, {}});
    }
  }

  void read_row() {
    round_ = {};
    round_.actions = actions_;
    JsonWriter context;
    context.begin_object();
    bool has_context = false;
    std::string chosen;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string_view text = row_.fields[i];
      if (columns_[i] == Column::kAction) {
        chosen = text;
      } else if (columns_[i] == Column::kContext) {
        has_context = has_context || !text.empty();
        add_feature(context, names_[i], text);
      } else {
        read_field(columns_[i], text);
      }
    }
    context.end_object();
    round_.context = has_context ? context.text() : "";
    const auto found = std::ranges::find(round_.actions, chosen, &RoundAction::id);
    if (found == round_.actions.end()) {
      refuse_field("action", actions_.empty() ? "one of those in the column actions" : "an id",
                   chosen);
    }
    round_.chosen = static_cast<std::uint32_t>(found - round_.actions.begin());
    check_logged_round(round_);
  }

  // A number is a number, anything else a category, and an empty field is no feature.
  static void add_feature(JsonWriter& context, const std::string& name, std::string_view text) {
    if (text.empty()) {
      return;
    }
    const double number = parse_double(text);
    if (std::isfinite(number)) {
      context.field(name, number);
    } else {
      context.field(name, text);
    }
  }

  void read_field(Column column, std::string_view text) {
    switch (column) {
      case Column::kEvent:
        round_.event = text;
        break;
      case Column::kUser:
        round_.user = text;
        break;
      case Column::kTime:
        round_.time = parse_time(text);
        if (!round_.time && !text.empty()) {
          refuse_field("time", "a time such as 2021-02-04T16:31:29Z", text);
        }
        break;
      case Column::kSlot:
        round_.slot =
            text.empty()
                ? 0
                : static_cast<std::uint32_t>(parse_float_field("slot", text, 0, 1'000'000));
        break;
      case Column::kProbability:
        round_.probability = number_in("probability", text);
        break;
      case Column::kReward:
        if (!text.empty()) {
          round_.reward = number_in("reward", text);
        }
        break;
      case Column::kActions:
        read_actions(text);
        break;
      default:
        break;
    }
  }

  // "tea|coffee|juice"
  void read_actions(std::string_view text) {
    while (true) {
      const std::size_t bar = text.find('|');
      round_.actions.push_back({std::string(text.substr(0, bar)), {}});
      if (bar == std::string_view::npos) {
        return;
      }
      text.remove_prefix(bar + 1);
    }
  }

  std::vector<std::string> names_;
  std::vector<Column> columns_;
  std::vector<RoundAction> actions_;  // of every row; empty if rows name their own
  Row row_;
  LoggedRound round_;
  simdjson::dom::parser parser_;
  simdjson::padded_string padded_;
};

}  // namespace

std::unique_ptr<LineReader> make_csv_reader(std::string_view header, const Input& input) {
  return std::make_unique<CsvReader>(header, input);
}

}  // namespace mcnb
