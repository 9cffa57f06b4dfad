#include "mcnb/environment/environments.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>

#include "mcnb/base/error.h"
#include "mcnb/data/catalogue.h"
#include "mcnb/data/ratings_readers.h"
#include "mcnb/data/samples_readers.h"
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
  // The files it is made of, where it is made of files.
  std::function<std::vector<fs::path>(const EnvironmentSpec&)> files;
  std::function<std::unique_ptr<Environment>(const EnvironmentSpec&, std::uint64_t seed)> make;
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
                fmt::format("environment {}: nobody has said where data sets are", spec.name));
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

// Rounds of one or several sets of labelled samples.
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
          }};
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

// Your own data: the options of a data set, and the file.
const OptionHelp kFile{"file", "the file with the data", "a path", ""};

std::string own_file(const OptionValues& values) {
  const auto found = values.find(kFile.name);
  if (found == values.end() || found->second.empty()) {
    refuse_option(kFile.name, kFile.expected, "");
  }
  return found->second;
}

OptionValues without_file(OptionValues values) {
  values.erase(kFile.name);
  return values;
}

std::vector<OptionHelp> with_file(std::vector<OptionHelp> options) {
  options.insert(options.begin(), kFile);
  return options;
}

template <class Options>
OptionValues all_with_file(const OptionTable<Options>& table, const OptionValues& values) {
  OptionValues all = table.values(read_options(table, without_file(values)));
  all[kFile.name] = own_file(values);
  return all;
}

Entry own_ratings() {
  const auto& table = recommendation_option_table();
  return {
      .name = "ratings",
      .help = "your own ratings, a CSV with a user, an item and a rating of 1 to 5 per row",
      .options = with_file(table.help()),
      .all_options = [&](const OptionValues& v) { return all_with_file(table, v); },
      .files =
          [](const EnvironmentSpec& spec) { return std::vector<fs::path>{own_file(spec.options)}; },
      .make =
          [&](const EnvironmentSpec& spec, std::uint64_t seed) {
            const fs::path file = own_file(spec.options);
            const RatingsSet ratings{.name = "ratings",
                                     .files = {file},
                                     .kind = RatingKind::kStars,
                                     .read = [file](ThreadPool& threads) {
                                       return read_ratings_csv(Input::file(file), {}, threads);
                                     }};
            return make_recommendation_world(source_of(spec), ratings,
                                             read_options(table, without_file(spec.options)), seed);
          }};
}

Entry own_samples() {
  const auto& table = classification_option_table();
  return {
      .name = "samples",
      .help = "your own labelled samples: a CSV of numbers, or .npy, the label in the last column",
      .options = with_file(table.help()),
      .all_options = [&](const OptionValues& v) { return all_with_file(table, v); },
      .files =
          [](const EnvironmentSpec& spec) { return std::vector<fs::path>{own_file(spec.options)}; },
      .make =
          [&](const EnvironmentSpec& spec, std::uint64_t seed) {
            const fs::path file = own_file(spec.options);
            const SamplesSet samples{
                .name = "samples", .files = {file}, .read = [file](ThreadPool& threads) {
                  return file.extension() == ".npy"
                             ? read_npy(Input::file(file), std::nullopt)
                             : read_labelled_csv(Input::file(file), {}, threads);
                }};
            return make_classification_world(source_of(spec), {samples},
                                             read_options(table, without_file(spec.options)), seed);
          }};
}

// The synthetic world, then every data set of the catalogue, then your own.
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
    made.push_back(own_ratings());
    made.push_back(own_samples());
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

OptionValues all_options(const EnvironmentSpec& spec) {
  return find_entry(spec.name).all_options(spec.options);
}

std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed) {
  return find_entry(spec.name).make(spec, seed);
}

std::string source_text(const EnvironmentSpec& spec) {
  std::string text;
  for (const fs::path& file : find_entry(spec.name).files(spec)) {
    std::error_code error;
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", file.filename().string(),
                        fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0,
                        fs::last_write_time(file, error).time_since_epoch().count());
  }
  return text;
}

}  // namespace mcnb
