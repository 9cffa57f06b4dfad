#include "mcnb/data/sets/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "mcnb/base/error.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

// One line per data set, sorted by name.
std::vector<DataSet> make_data_sets() {
  // clang-format off
  return {
      amazon_data_set(),
      cifar10_data_set(),
      emnist_letters_data_set(),
      facebook_data_set(),
      fashion_mnist_data_set(),
      magic_telescope_data_set(),
      mnist_data_set(),
      movielens_data_set(),
      movielens_small_data_set(),
      mushroom_data_set(),
      notmnist_data_set(),
      shuttle_data_set(),
      yelp_data_set(),
  };
  // clang-format on
}

std::string names_text(const DataFile& file) {
  return fmt::format("{}{}", fmt::join(file.names, " or "), file.is_folder ? "/" : "");
}

std::string form_text(const DataForm& form) {
  std::string always;
  std::string one_of;
  for (const DataFile& file : form) {
    if (file.need == Need::kAlways) {
      always += (always.empty() ? "" : "; ") + names_text(file);
    } else if (file.need == Need::kOneOfThese) {
      one_of += (one_of.empty() ? "at least one of " : ", ") + names_text(file);
    }
  }
  return always + (always.empty() || one_of.empty() ? "" : "; ") + one_of;
}

// The files of a form in these folders, if all required ones exist.
std::optional<FoundFiles> find_form(const DataSet& set, std::size_t form,
                                    std::span<const fs::path> folders) {
  FoundFiles found{.folder = folders.back(), .form = form, .paths = {}};
  bool all = true;
  bool needs_one = false;
  bool has_one = false;
  for (const DataFile& file : set.forms[form]) {
    found.paths.emplace_back();
    for (const fs::path& folder : folders) {
      if (found.paths.back().empty()) {
        found.paths.back() = find_file(folder, file);
      }
    }
    const bool there = !found.paths.back().empty();
    all = all && (there || file.need != Need::kAlways);
    needs_one = needs_one || file.need == Need::kOneOfThese;
    has_one = has_one || (there && file.need == Need::kOneOfThese);
  }
  return all && (has_one || !needs_one) ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

std::span<const DataSet> data_sets() {
  static const std::vector<DataSet> all = make_data_sets();
  return all;
}

const DataSet& find_data_set(const std::string& name) {
  std::string known;
  for (const DataSet& set : data_sets()) {
    if (set.name == name) {
      return set;
    }
    known += (known.empty() ? "" : ", ") + set.name;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("data set: expected one of {}, got \"{}\"", known, name));
}

fs::path find_file(const fs::path& folder, const DataFile& file) {
  std::error_code error;
  for (const std::string& name : file.names) {
    const fs::path plain = folder / name;
    if (file.is_folder) {
      if (fs::is_directory(plain, error) && !fs::is_empty(plain, error)) {
        return plain;
      }
      continue;
    }
    for (const fs::path& path : {plain, fs::path(plain.string() + ".gz")}) {
      if (fs::is_regular_file(path, error) && fs::file_size(path, error) > 0) {
        return path;
      }
    }
  }
  return {};
}

std::optional<FoundFiles> find_files(const DataSet& set, std::span<const fs::path> folders) {
  for (std::size_t form = 0; form < set.forms.size(); ++form) {
    if (std::optional<FoundFiles> found = find_form(set, form, folders)) {
      return found;
    }
  }
  return std::nullopt;
}

bool is_whole(const FoundFiles& files) {
  return std::ranges::none_of(files.paths, &fs::path::empty);
}

std::optional<FoundFiles> locate(const DataSet& set, std::span<const fs::path> roots) {
  for (const fs::path& root : roots) {
    for (const std::string& name : set.folders) {
      const fs::path folder = root / name;
      if (std::optional<FoundFiles> found = find_files(set, std::span(&folder, 1))) {
        return found;
      }
    }
  }
  return std::nullopt;
}

FoundFiles require_files(const DataSet& set, std::span<const fs::path> roots) {
  if (std::optional<FoundFiles> found = locate(set, roots)) {
    return *std::move(found);
  }
  std::string folders_text;
  for (const fs::path& root : roots) {
    folders_text += fmt::format("\n  {}", (root / set.folders.front()).string());
  }
  const std::string how = set.by_hand.empty() ? fmt::format("\nor run: mcnb data get {}", set.name)
                                              : fmt::format("\n({})", set.by_hand);
  throw Error(
      ErrorKind::kInput,
      fmt::format("data set {}: its files are not here; expected, plain or with .gz:\n  {}\n"
                  "from {}\nin one of the folders:{}{}",
                  set.name, expected_text(set), set.home, folders_text, how));
}

DataCounts count(const Ratings& ratings, DataKind kind) {
  if (kind == DataKind::kLinks) {
    return {.rows = ratings.size() / 2, .users = ratings.user_count()};
  }
  return {.rows = ratings.size(), .users = ratings.user_count(), .items = ratings.item_count()};
}

DataCounts count(const Samples& samples) {
  return {.rows = samples.size(), .classes = samples.class_count()};
}

std::string expected_text(const DataSet& set) {
  std::string text;
  for (const DataForm& form : set.forms) {
    text += (text.empty() ? "" : ", or: ") + form_text(form);
  }
  return text;
}

}  // namespace mcnb
