// The Open Bandit Dataset (Saito et al., 2020): impressions of a fashion site in three positions.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "mcnb/base/error.h"
#include "mcnb/base/json_writer.h"
#include "mcnb/data/formats/text_reader.h"
#include "mcnb/evaluate/readers/line_readers.h"
#include "mcnb/logs/timestamps.h"

namespace mcnb {
namespace {

constexpr std::string_view kAffinity = "user-item_affinity_";
constexpr std::string_view kUserFeature = "user_feature_";
constexpr std::uint32_t kMostItems = 10'000;
constexpr std::uint32_t kPositions = 3;

// A whole number from `low` to before `end`.
std::uint32_t number_in(std::string_view name, std::string_view text, std::uint32_t low,
                        std::uint32_t end) {
  std::uint32_t number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || rest != text.data() + text.size() || number < low ||
      number >= end) {
    refuse_field(name, fmt::format("a whole number from {} to {}", low, end - 1), text);
  }
  return number;
}

void split_row(std::string_view line, std::vector<std::string_view>& fields) {
  const std::size_t found = split(line, ",", fields);
  if (found != fields.size()) {
    refuse_column_count(fields.size(), found);
  }
}

// The features of items as JSON members, by item, from item_context.csv.
class ItemFile {
 public:
  explicit ItemFile(const std::filesystem::path& path) {
    ThreadPool threads(1);
    TextReader text(Input::file(path), threads);
    Row names(text.need_line());
    const auto id = std::ranges::find(names.fields, "item_id");
    if (id == names.fields.end()) {
      text.refuse_line("expected a column item_id");
    }
    const auto id_column = static_cast<std::size_t>(id - names.fields.begin());
    text.skip_line();
    std::vector<std::string_view> fields(names.fields.size());
    while (const auto line = text.peek_line()) {
      try {
        split_row(*line, fields);
        const std::uint32_t item = number_in("item_id", fields[id_column], 0, kMostItems);
        members_.resize(std::max<std::size_t>(members_.size(), item + 1));
        members_[item] = members_of(names, fields);
      } catch (const RowError& error) {
        text.refuse_line(error.message);
      }
      text.skip_line();
    }
  }

  const std::vector<std::string>& members() const { return members_; }

 private:
  struct Row {
    explicit Row(std::string_view line) : text(line), fields(64) {
      fields.resize(std::min(split(text, ",", fields), fields.size()));
    }
    std::string text;
    std::vector<std::string_view> fields;
  };

  static std::string members_of(const Row& names, const std::vector<std::string_view>& fields) {
    JsonWriter json;
    json.begin_object();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (!names.fields[i].starts_with("item_feature_")) {
        continue;
      }
      const double number = parse_double(fields[i]);
      if (std::isfinite(number)) {
        json.field(names.fields[i], number);
      } else {
        json.field(names.fields[i], fields[i]);
      }
    }
    const std::string& object = json.end_object().text();
    return object.substr(1, object.size() - 2);
  }

  std::vector<std::string> members_;
};

class OpenBanditReader : public LineReader {
 public:
  OpenBanditReader(std::string_view header, const LogReadOptions& options)
      : with_features_(options.features), header_(header) {
    names_.resize(static_cast<std::size_t>(std::ranges::count(header_, ',')) + 1);
    split_row(header_, names_);
    time_ = column("timestamp");
    item_ = column("item_id");
    position_ = column("position");
    click_ = column("click");
    propensity_ = column("propensity_score");
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].starts_with(kUserFeature)) {
        user_.push_back(i);
      } else if (names_[i].starts_with(kAffinity)) {
        const std::uint32_t item =
            number_in(names_[i], names_[i].substr(kAffinity.size()), 0, kMostItems);
        affinity_.resize(std::max<std::size_t>(affinity_.size(), item + 1), names_.size());
        affinity_[item] = i;
      }
    }
    if (!options.items.empty()) {
      items_ = ItemFile(options.items).members();
    }
    items_.resize(std::max(items_.size(), affinity_.size()));
    if (items_.empty()) {
      throw Error(ErrorKind::kInput,
                  "expected columns user-item_affinity_N, or item_context.csv beside the log, to "
                  "know how many items there are");
    }
    for (std::size_t item = 0; item < items_.size(); ++item) {
      round_.actions.push_back({std::to_string(item), {}});
    }
    fields_.resize(names_.size());
  }

  void read(std::string_view line, const VisitRound& visit, const LeaveOut&) override {
    split_row(line, fields_);
    round_.time = parse_time(fields_[time_]);
    if (!round_.time) {
      refuse_field("timestamp", "a time such as 2019-11-24 00:03:13+00:00", fields_[time_]);
    }
    round_.slot = number_in("position", fields_[position_], 1, kPositions + 1) - 1;
    round_.chosen =
        number_in("item_id", fields_[item_], 0, static_cast<std::uint32_t>(items_.size()));
    round_.reward = number_in("click", fields_[click_], 0, 2);
    round_.probability = parse_double(fields_[propensity_]);
    if (!(round_.probability >= kLeastLoggedProbability && round_.probability <= 1.0)) {
      refuse_field("propensity_score", "a number above 0, at most 1", fields_[propensity_]);
    }
    if (with_features_) {
      write_features();
    }
    visit(round_);
  }

 private:
  std::size_t column(std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      throw Error(ErrorKind::kInput, fmt::format("expected a column {}", name));
    }
    return static_cast<std::size_t>(found - names_.begin());
  }

  void write_features() {
    JsonWriter context;
    context.begin_object();
    for (const std::size_t i : user_) {
      context.field(names_[i], fields_[i]);
    }
    round_.context = context.end_object().take();
    for (std::size_t item = 0; item < items_.size(); ++item) {
      const std::string_view text = item < affinity_.size() && affinity_[item] < fields_.size()
                                        ? fields_[affinity_[item]]
                                        : "0.0";
      std::string& features = round_.actions[item].features;
      features = "{" + items_[item];
      if (text != "0.0") {
        const double affinity = parse_double(text);
        if (!std::isfinite(affinity)) {
          refuse_field(names_[affinity_[item]], "a finite number", text);
        }
        features += fmt::format("{}\"affinity\":{}", items_[item].empty() ? "" : ",", affinity);
      }
      features += '}';
    }
  }

  bool with_features_;
  std::string header_;
  std::vector<std::string_view> names_;  // of the columns
  std::size_t time_ = 0;
  std::size_t item_ = 0;
  std::size_t position_ = 0;
  std::size_t click_ = 0;
  std::size_t propensity_ = 0;
  std::vector<std::size_t> user_;      // columns
  std::vector<std::size_t> affinity_;  // columns, by item; names_.size(): none
  std::vector<std::string> items_;     // JSON members, by item
  std::vector<std::string_view> fields_;
  LoggedRound round_;
};

}  // namespace

std::unique_ptr<LineReader> make_open_bandit_reader(std::string_view header,
                                                    const LogReadOptions& options) {
  return std::make_unique<OpenBanditReader>(header, options);
}

}  // namespace mcnb
