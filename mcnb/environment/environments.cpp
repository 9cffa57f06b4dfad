#include "mcnb/environment/environments.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/prepare/provenance.h"
#include "mcnb/data/sets/catalogue.h"
#include "mcnb/environment/data_source.h"
#include "mcnb/environment/synthetic.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string name;
  std::string help;
  std::vector<OptionHelp> options;
  std::function<OptionValues(const OptionValues&)> all_options;
  // The files it is made of, if any.
  std::function<std::vector<fs::path>(const EnvironmentSpec&)> files;
  std::function<std::unique_ptr<Environment>(const EnvironmentSpec&, std::uint64_t seed)> make;
  bool classifies = false;
};

template <class Options>
Options read_options(const OptionTable<Options>& table, const OptionValues& values) {
  Options options;
  table.set_all(options, values);
  return options;
}

Entry synthetic() {
  const auto& table = synthetic_option_table();
  return {
      .name = "synthetic",
      .help = "users in true clusters with known reward functions",
      .options = table.help(),
      .all_options = [&](const OptionValues& v) { return table.values(read_options(table, v)); },
      .files = [](const EnvironmentSpec&) { return std::vector<fs::path>(); },
      .make =
          [&](const EnvironmentSpec& spec, std::uint64_t seed) {
            return std::make_unique<SyntheticWorld>(read_options(table, spec.options), seed);
          }};
}

DataSource& source_of(const EnvironmentSpec& spec) {
  if (spec.data == nullptr) {
    throw Error(ErrorKind::kUsage,
                fmt::format("environment {}: no folder with data sets was given", spec.name));
  }
  return *spec.data;
}

std::vector<fs::path> files_of(const FoundFiles& found) {
  std::vector<fs::path> files;
  std::ranges::copy_if(found.paths, std::back_inserter(files),
                       [](const fs::path& path) { return !path.empty(); });
  return files;
}

FoundFiles find_files(const std::string& name, const EnvironmentSpec& spec) {
  return require_files(find_data_set(name), source_of(spec).folders());
}

SamplesSet samples_set(const std::string& name, const EnvironmentSpec& spec) {
  const FoundFiles found = find_files(name, spec);
  return {.name = name, .files = files_of(found), .read = [name, found](ThreadPool& threads) {
            return find_data_set(name).read_samples(found, threads);
          }};
}

// An environment of one or several sets of labelled samples.
Entry classification(const std::string& name, const std::string& help,
                     const std::vector<std::string>& parts) {
  const auto& table = classification_option_table();
  const auto sets = [parts](const EnvironmentSpec& spec) {
    std::vector<SamplesSet> all;
    for (const std::string& part : parts) {
      all.push_back(samples_set(part, spec));
    }
    return all;
  };
  return {
      .name = name,
      .help = help,
      .options = table.help(),
      .all_options = [&](const OptionValues& v) { return table.values(read_options(table, v)); },
      .files =
          [sets](const EnvironmentSpec& spec) {
            std::vector<fs::path> files;
            for (const SamplesSet& set : sets(spec)) {
              files.insert(files.end(), set.files.begin(), set.files.end());
            }
            return files;
          },
      .make =
          [&table, sets](const EnvironmentSpec& spec, std::uint64_t seed) {
            return make_classification_world(source_of(spec), sets(spec),
                                             read_options(table, spec.options), seed);
          },
      .classifies = true};
}

Entry recommendation(const DataSet& set) {
  const auto& table = recommendation_option_table();
  const std::string name = set.name;
  return {
      .name = name,
      .help = set.about,
      .options = table.help(),
      .all_options = [&](const OptionValues& v) { return table.values(read_options(table, v)); },
      .files = [name](const EnvironmentSpec& spec) { return files_of(find_files(name, spec)); },
      .make =
          [&table, name](const EnvironmentSpec& spec, std::uint64_t seed) {
            const DataSet& known = find_data_set(name);
            const FoundFiles found = find_files(name, spec);
            const RatingsSet ratings{
                .name = name,
                .files = files_of(found),
                .kind = known.kind == DataKind::kLinks ? RatingKind::kLinks : RatingKind::kStars,
                .read = [&known, found](ThreadPool& threads) {
                  return known.read_ratings(found, threads);
                }};
            return make_recommendation_world(source_of(spec), ratings,
                                             read_options(table, spec.options), seed);
          }};
}

// Options for a user's own data: those of a data set, the file, and how to read it.
struct OwnRatings {
  std::string file;
  std::string user_column;
  std::string item_column;
  std::string rating_column;
  char separator = '\0';
  HeaderLine header = HeaderLine::kAuto;
  RecommendationOptions world;
};

struct OwnSamples {
  std::string file;
  std::string label_column;
  char separator = '\0';
  HeaderLine header = HeaderLine::kAuto;
  ClassificationOptions world;
};

const std::string kColumn = "a column's name";
const std::vector<std::pair<std::string, char>> kSeparators{
    {"auto", '\0'}, {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"blank", ' '}};

const std::vector<std::pair<std::string, HeaderLine>> kHeaders{
    {"auto", HeaderLine::kAuto}, {"yes", HeaderLine::kYes}, {"no", HeaderLine::kNo}};
const std::string kHeaderHelp =
    "whether the first line names the columns; auto: decided by its fields";

const OptionTable<OwnRatings>& own_ratings_table() {
  static const OptionTable<OwnRatings> table = [] {
    OptionTable<OwnRatings> made;
    made.text("file", &OwnRatings::file, "a path", "the CSV, plain or gzip; must be given")
        .text("user_column", &OwnRatings::user_column, kColumn,
              "empty: the one with a usual name, else the first")
        .text("item_column", &OwnRatings::item_column, kColumn,
              "empty: the one with a usual name, else the second")
        .text("rating_column", &OwnRatings::rating_column, kColumn,
              "empty: the one with a usual name, else the third")
        .choice("separator", &OwnRatings::separator, {kSeparators.begin(), kSeparators.end() - 1},
                "between columns; auto: recognised by the first line, also \"::\"")
        .choice("header", &OwnRatings::header, kHeaders, kHeaderHelp)
        .part(&OwnRatings::world, recommendation_option_table());
    return made;
  }();
  return table;
}

const OptionTable<OwnSamples>& own_samples_table() {
  static const OptionTable<OwnSamples> table = [] {
    OptionTable<OwnSamples> made;
    made.text("file", &OwnSamples::file, "a path", "a CSV, plain or gzip, or .npy; must be given")
        .text("label_column", &OwnSamples::label_column, kColumn, "of a CSV; empty: the last")
        .choice("separator", &OwnSamples::separator, kSeparators,
                "between columns of a CSV; auto: recognised by the first line")
        .choice("header", &OwnSamples::header, kHeaders, kHeaderHelp)
        .part(&OwnSamples::world, classification_option_table());
    return made;
  }();
  return table;
}

template <class Own>
Own read_own(const OptionTable<Own>& table, const OptionValues& values) {
  Own own = read_options(table, values);
  if (own.file.empty()) {
    refuse_option("file", "a path", "");
  }
  return own;
}

// `make(own, source, seed)` returns the environment.
template <class Own, class Make>
Entry own_data(std::string name, std::string help, const OptionTable<Own>& table,
               const Make& make) {
  return {.name = std::move(name),
          .help = std::move(help),
          .options = table.help(),
          .all_options =
              [&table](const OptionValues& v) { return table.values(read_options(table, v)); },
          .files =
              [&table](const EnvironmentSpec& spec) {
                return std::vector<fs::path>{read_own(table, spec.options).file};
              },
          .make =
              [&table, make](const EnvironmentSpec& spec, std::uint64_t seed) {
                return make(read_own(table, spec.options), source_of(spec), seed);
              }};
}

std::unique_ptr<Environment> make_own_ratings(const OwnRatings& own, DataSource& source,
                                              std::uint64_t seed) {
  const RatingsCsvOptions columns{.user_column = own.user_column,
                                  .item_column = own.item_column,
                                  .rating_column = own.rating_column,
                                  .separator = own.separator,
                                  .header = own.header};
  const RatingsSet ratings{
      .name = "ratings",
      .files = {own.file},
      .kind = RatingKind::kStars,
      .read =
          [own, columns](ThreadPool& threads) {
            return read_ratings_csv(Input::file(own.file), columns, threads);
          },
      .reading = fmt::format(" columns={},{},{} separator={} header={}", own.user_column,
                             own.item_column, own.rating_column, static_cast<int>(own.separator),
                             static_cast<int>(own.header))};
  return make_recommendation_world(source, ratings, own.world, seed);
}

std::unique_ptr<Environment> make_own_samples(const OwnSamples& own, DataSource& source,
                                              std::uint64_t seed) {
  const LabelledCsvOptions columns{
      .label_column = own.label_column, .separator = own.separator, .header = own.header};
  const SamplesSet samples{
      .name = "samples",
      .files = {own.file},
      .read =
          [own, columns](ThreadPool& threads) {
            return read_samples_file(Input::file(own.file), columns, threads);
          },
      .reading = fmt::format(" label={} separator={} header={}", own.label_column,
                             static_cast<int>(own.separator), static_cast<int>(own.header))};
  return make_classification_world(source, {samples}, own.world, seed);
}

// The synthetic world, then every data set of the catalogue, then the user's own data.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> made{synthetic()};
    for (const DataSet& set : data_sets()) {
      made.push_back(set.kind == DataKind::kSamples
                         ? classification(set.name, set.about, {set.name})
                         : recommendation(set));
    }
    made.push_back(classification("mnist+notmnist", "digits and letters, each with equal chance",
                                  {"mnist", "notmnist"}));
    made.push_back(own_data(
        "ratings", "your own ratings: a CSV with a user, an item and a rating (any numbers) a row",
        own_ratings_table(), make_own_ratings));
    made.push_back(own_data("samples", "your own labelled samples: a CSV of numbers, or .npy",
                            own_samples_table(), make_own_samples));
    made.back().classifies = true;
    return made;
  }();
  return all;
}

const Entry& find_entry(const std::string& name) {
  std::string known;
  for (const Entry& entry : entries()) {
    if (entry.name == name) {
      return entry;
    }
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  refuse_option("environment", "one of " + known, name);
}

}  // namespace

std::vector<EnvironmentHelp> environment_help() {
  std::vector<EnvironmentHelp> all;
  for (const Entry& entry : entries()) {
    all.push_back({entry.name, entry.help, entry.options});
  }
  return all;
}

std::shared_ptr<DataSource> make_data_source(DataSettings settings) {
  return std::make_shared<DataSource>(std::move(settings));
}

OptionValues all_options(const EnvironmentSpec& spec) {
  return find_entry(spec.name).all_options(spec.options);
}

bool is_classification(const EnvironmentSpec& spec) { return find_entry(spec.name).classifies; }

std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed) {
  return find_entry(spec.name).make(spec, seed);
}

namespace {

// The checksum of a file's contents. A file that has not changed is not read again.
std::uint64_t checksum_of(const fs::path& file) {
  static std::mutex mutex;
  static std::map<std::string, std::uint64_t> known;
  std::error_code error;
  const std::string version =
      fmt::format("{} {} {}", file.string(), fs::file_size(file, error),
                  fs::last_write_time(file, error).time_since_epoch().count());
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(version); found != known.end()) {
    return found->second;
  }
  return known[version] = content_checksum(file);
}

// A checksum of the names and lengths of all files below a folder, which may be hundreds of
// thousands.
std::uint64_t checksum_of_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files(fs::recursive_directory_iterator(folder, error), {});
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files) {
    text += fmt::format("{} {};", file.lexically_relative(folder).string(),
                        fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0);
  }
  return hash_bytes(text);
}

}  // namespace

std::string source_text(const EnvironmentSpec& spec) {
  std::string text;
  for (const fs::path& source : find_entry(spec.name).files(spec)) {
    std::error_code error;
    text += fmt::format(
        "{}{} {:016x}", text.empty() ? "" : "; ", source.filename().string(),
        fs::is_directory(source, error) ? checksum_of_folder(source) : checksum_of(source));
  }
  return text;
}

}  // namespace mcnb
