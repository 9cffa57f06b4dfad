#include "mcnb/data/sets/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "mcnb/base/error.h"
#include "mcnb/data/formats/input.h"
#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/formats/samples_readers.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

const std::string kResearchOnly = "research use; not to be passed on";
const std::string kCifarNames = "batches.meta.txt";
constexpr std::array<const char*, 6> kCifarBatches = {"data_batch_1.bin", "data_batch_2.bin",
                                                      "data_batch_3.bin", "data_batch_4.bin",
                                                      "data_batch_5.bin", "test_batch.bin"};

// A class for each letter or digit.
std::vector<std::string> one_each(std::string_view characters) {
  std::vector<std::string> names;
  for (const char character : characters) {
    names.emplace_back(1, character);
  }
  return names;
}

Input open_file(const FoundFiles& files, std::size_t place) {
  return Input::file(files.paths[place]);
}

bool is_there(const FoundFiles& files, std::size_t place) { return !files.paths[place].empty(); }

// The training files, and the test files where they are there.
Samples read_idx_pairs(const FoundFiles& files, const IdxOptions& options) {
  std::vector<Samples> parts;
  parts.push_back(read_idx(open_file(files, 0), open_file(files, 1), options));
  if (is_there(files, 2) && is_there(files, 3)) {
    parts.push_back(read_idx(open_file(files, 2), open_file(files, 3), options));
  }
  return join_samples(std::move(parts));
}

DataForm idx_files(const std::string& before) {
  return {
      {{before + "train-images-idx3-ubyte"}},
      {{before + "train-labels-idx1-ubyte"}},
      {{before + "t10k-images-idx3-ubyte", before + "test-images-idx3-ubyte"}, Need::kOptional},
      {{before + "t10k-labels-idx1-ubyte", before + "test-labels-idx1-ubyte"}, Need::kOptional}};
}

IdxOptions ten_classes(std::vector<std::string> names) {
  IdxOptions options;
  options.class_names = std::move(names);
  return options;
}

// The four files of MNIST or a set of its shape, from one folder of the net.
std::vector<Download> four_files(const std::string& folder, const char* train_images,
                                 const char* train_labels, const char* test_images,
                                 const char* test_labels) {
  const auto one = [&](const std::string& name, const char* checksum) {
    return Download{folder + name, name, {}, std::string("sha256:") + checksum};
  };
  return {one("train-images-idx3-ubyte.gz", train_images),
          one("train-labels-idx1-ubyte.gz", train_labels),
          one("t10k-images-idx3-ubyte.gz", test_images),
          one("t10k-labels-idx1-ubyte.gz", test_labels)};
}

Ratings read_amazon(const FoundFiles& files, ThreadPool& threads) {
  const std::string name = files.paths[0].filename().string();
  return name.find(".json") != std::string::npos
             ? read_amazon_reviews(open_file(files, 0), threads)
             : read_amazon_ratings(open_file(files, 0), threads);
}

Ratings read_movielens_file(const FoundFiles& files, ThreadPool& threads) {
  return read_movielens(open_file(files, 0), threads);
}

Samples read_shuttle_files(const FoundFiles& files, ThreadPool& threads) {
  std::vector<Samples> parts;
  parts.push_back(read_shuttle(open_file(files, 0), threads));
  if (is_there(files, 1)) {
    parts.push_back(read_shuttle(open_file(files, 1), threads));
  }
  return join_samples(std::move(parts));
}

// The batches, then the names of the classes.
DataForm cifar10_files() {
  DataForm files;
  for (const char* batch : kCifarBatches) {
    files.push_back({{batch}, Need::kOneOfThese});
  }
  files.push_back({{kCifarNames}});
  return files;
}

std::vector<ArchiveMember> cifar10_members() {
  std::vector<ArchiveMember> members{{kCifarNames}};
  for (const char* batch : kCifarBatches) {
    members.push_back({batch});
  }
  return members;
}

Samples read_cifar10_files(const FoundFiles& files, ThreadPool&) {
  std::vector<Input> batches;
  ReadReport missing;
  for (std::size_t k = 0; k < kCifarBatches.size(); ++k) {
    if (is_there(files, k)) {
      batches.push_back(open_file(files, k));
    } else {
      missing.skip("batches that are not there", (files.folder / kCifarBatches[k]).string());
    }
  }
  Samples samples = read_cifar10(open_file(files, kCifarBatches.size()), batches);
  samples.report.add(missing);
  return samples;
}

// As IDX files, as the archive of pictures, or as its folders.
std::vector<DataForm> notmnist_forms() {
  return {{{{"train-images-idx3-ubyte"}}, {{"train-labels-idx1-ubyte"}}},
          {{{"notMNIST_small.tar"}}},
          {{{"notMNIST_small"}, Need::kAlways, true}}};
}

Samples read_notmnist_files(const FoundFiles& files, ThreadPool& threads) {
  return files.form == 0 ? read_idx(open_file(files, 0), open_file(files, 1),
                                    ten_classes(one_each(kNotMnistLetters)))
                         : read_notmnist(files.paths[0], threads);
}

std::vector<DataSet> make_data_sets() {
  std::vector<DataSet> all;
  all.push_back(
      {.name = "amazon",
       .kind = DataKind::kRatings,
       .about = "ratings of clothes by customers of a shop, 1 to 5",
       .home = "https://nijianmo.github.io/amazon/",
       .licence = "research use",
       .folders = {"amazon"},
       .forms = {{{{"AMAZON_FASHION.csv", "AMAZON_FASHION.json", "AMAZON_FASHION_5.json"}}}},
       .published = {.rows = 883'636},
       .by_hand = "its home page hands the files out: take AMAZON_FASHION.csv from "
                  "\"ratings only\"",
       .read_ratings = read_amazon});
  all.push_back({.name = "cifar10",
                 .kind = DataKind::kSamples,
                 .about = "colour pictures of ten kinds of things, 32 x 32",
                 .home = "https://www.cs.toronto.edu/~kriz/cifar.html",
                 .licence = "none stated; cite Krizhevsky 2009",
                 .folders = {"cifar10", "cifar-10-batches-bin"},
                 .forms = {cifar10_files()},
                 .published = {.rows = 60'000, .classes = 10},
                 .downloads = {{"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "",
                                cifar10_members(), "md5:c32a1d4ab5d03f1284b67883e8d87530"}},
                 .read_samples = read_cifar10_files});
  all.push_back({.name = "emnist-letters",
                 .kind = DataKind::kSamples,
                 .about = "handwritten letters, 28 x 28",
                 .home = "https://www.nist.gov/itl/products-and-services/emnist-dataset",
                 .licence = "public domain (NIST)",
                 .folders = {"emnist", "emnist-letters"},
                 .forms = {idx_files("emnist-letters-")},
                 .published = {.rows = 145'600, .classes = 26},
                 .downloads = {{"https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                                "",
                                {{"emnist-letters-train-images-idx3-ubyte.gz"},
                                 {"emnist-letters-train-labels-idx1-ubyte.gz"},
                                 {"emnist-letters-test-images-idx3-ubyte.gz"},
                                 {"emnist-letters-test-labels-idx1-ubyte.gz"}},
                                "md5:58c8d27c78d21e728a6bc7b3cc06412e"}},
                 .read_samples = [](const FoundFiles& files, ThreadPool&) {
                   IdxOptions options;
                   options.transpose = true;
                   options.first_label = 1;
                   options.class_names = one_each("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
                   return read_idx_pairs(files, options);
                 }});
  all.push_back({.name = "facebook",
                 .kind = DataKind::kLinks,
                 .about = "friendships of people",
                 .home = "https://snap.stanford.edu/data/ego-Facebook.html",
                 .licence = "none stated; cite McAuley and Leskovec 2012",
                 .folders = {"facebook"},
                 .forms = {{{{"facebook_combined.txt"}}}},
                 .published = {.rows = 88'234, .users = 4'039},
                 .downloads = {{"https://snap.stanford.edu/data/facebook_combined.txt.gz",
                                "facebook_combined.txt.gz",
                                {},
                                "sha256:7cc432d08910b3a940ce90f7da94c13aaf048b04724eafcdf3050b28a"
                                "cc49daf"}},
                 .read_ratings = [](const FoundFiles& files, ThreadPool& threads) {
                   return read_edge_list(open_file(files, 0), threads);
                 }});
  all.push_back(
      {.name = "fashion-mnist",
       .kind = DataKind::kSamples,
       .about = "grey pictures of clothes, 28 x 28 (Debian: dataset-fashion-mnist)",
       .home = "https://github.com/zalandoresearch/fashion-mnist",
       .licence = "MIT",
       .folders = {"fashion-mnist"},
       .forms = {idx_files("")},
       .published = {.rows = 70'000, .classes = 10},
       .downloads = four_files("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                               "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                               "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                               "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                               "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
       .read_samples = [](const FoundFiles& files, ThreadPool&) {
         return read_idx_pairs(
             files, ten_classes({"T-shirt", "trouser", "pullover", "dress", "coat", "sandal",
                                 "shirt", "sneaker", "bag", "ankle boot"}));
       }});
  all.push_back({.name = "magic-telescope",
                 .kind = DataKind::kSamples,
                 .about = "showers that a telescope saw: gamma rays or hadrons, ten numbers",
                 .home = "https://archive.ics.uci.edu/dataset/159/magic+gamma+telescope",
                 .licence = "CC BY 4.0",
                 .folders = {"magic-telescope"},
                 .forms = {{{{"magic04.data"}}}},
                 .published = {.rows = 19'020, .classes = 2},
                 .downloads = {{"https://archive.ics.uci.edu/static/public/159/"
                                "magic+gamma+telescope.zip",
                                "",
                                {{"magic04.data"}},
                                ""}},
                 .read_samples = [](const FoundFiles& files, ThreadPool& threads) {
                   return read_magic_telescope(open_file(files, 0), threads);
                 }});
  all.push_back(
      {.name = "mnist",
       .kind = DataKind::kSamples,
       .about = "handwritten digits, 28 x 28",
       .home = "http://yann.lecun.com/exdb/mnist/",
       .licence = "CC BY-SA 3.0",
       .folders = {"mnist"},
       .forms = {idx_files("")},
       .published = {.rows = 70'000, .classes = 10},
       .downloads = four_files("https://ossci-datasets.s3.amazonaws.com/mnist/",
                               "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                               "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                               "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                               "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
       .read_samples = [](const FoundFiles& files, ThreadPool&) {
         return read_idx_pairs(files, ten_classes(one_each("0123456789")));
       }});
  all.push_back({.name = "movielens",
                 .kind = DataKind::kRatings,
                 .about = "ratings of films, 0.5 to 5",
                 .home = "https://grouplens.org/datasets/movielens/25m/",
                 .licence = kResearchOnly,
                 .folders = {"movielens", "ml-25m"},
                 .forms = {{{{"ratings.csv", "ratings.dat", "u.data"}}}},
                 .published = {.rows = 25'000'095, .users = 162'541, .items = 59'047},
                 .downloads = {{"https://files.grouplens.org/datasets/movielens/ml-25m.zip",
                                "",
                                {{"ratings.csv"}},
                                "md5:6b51fb2759a8657d3bfcbfc42b592ada"}},
                 .read_ratings = read_movielens_file});
  all.push_back({.name = "movielens-small",
                 .kind = DataKind::kRatings,
                 .about = "ratings of films, 0.5 to 5, the small edition for trying things out",
                 .home = "https://grouplens.org/datasets/movielens/latest/",
                 .licence = kResearchOnly,
                 .folders = {"movielens-small", "ml-latest-small"},
                 .forms = {{{{"ratings.csv"}}}},
                 .published = {.rows = 100'836, .users = 610, .items = 9'724},
                 .downloads = {{"https://files.grouplens.org/datasets/movielens/"
                                "ml-latest-small.zip",
                                "",
                                {{"ratings.csv",
                                  "sha256:aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed98"
                                  "05352646"}},
                                ""}},
                 .read_ratings = read_movielens_file});
  all.push_back({.name = "mushroom",
                 .kind = DataKind::kSamples,
                 .about = "mushrooms by 22 properties, edible or poisonous",
                 .home = "https://archive.ics.uci.edu/dataset/73/mushroom",
                 .licence = "CC BY 4.0",
                 .folders = {"mushroom"},
                 .forms = {{{{"agaricus-lepiota.data"}}}},
                 .published = {.rows = 8'124, .classes = 2},
                 .downloads = {{"https://archive.ics.uci.edu/static/public/73/mushroom.zip",
                                "",
                                {{"agaricus-lepiota.data",
                                  "sha256:e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe"
                                  "13ac360e"}},
                                ""}},
                 .read_samples = [](const FoundFiles& files, ThreadPool& threads) {
                   return read_mushroom(open_file(files, 0), threads);
                 }});
  all.push_back({.name = "notmnist",
                 .kind = DataKind::kSamples,
                 .about = "the letters A to J in many typefaces, 28 x 28, the small edition",
                 .home = "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
                 .licence = "none stated; cite Bulatov 2011",
                 .folders = {"notmnist", "notMNIST_small"},
                 .forms = notmnist_forms(),
                 .published = {.rows = 18'726, .classes = 10},
                 .downloads = {{"http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",
                                "notMNIST_small.tar.gz",
                                {},
                                ""}},
                 .read_samples = read_notmnist_files});
  all.push_back({.name = "shuttle",
                 .kind = DataKind::kSamples,
                 .about = "readings of a space shuttle's radiators, nine numbers, seven states",
                 .home = "https://archive.ics.uci.edu/dataset/148/statlog+shuttle",
                 .licence = "CC BY 4.0",
                 .folders = {"shuttle"},
                 .forms = {{{{"shuttle.trn"}}, {{"shuttle.tst"}, Need::kOptional}}},
                 .published = {.rows = 58'000, .classes = 7},
                 .downloads = {{"https://archive.ics.uci.edu/static/public/148/statlog+shuttle.zip",
                                "",
                                {{"shuttle.trn",
                                  "sha256:87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da"
                                  "1a38200a"},
                                 {"shuttle.tst",
                                  "sha256:f776934a628d9b94c482cb058a76ddaa63823e0f74aec065813c9dff"
                                  "3b89d661"}},
                                ""}},
                 .read_samples = read_shuttle_files});
  all.push_back({.name = "yelp",
                 .kind = DataKind::kRatings,
                 .about = "reviews of businesses, 1 to 5 stars",
                 .home = "https://www.yelp.com/dataset",
                 .licence = kResearchOnly,
                 .folders = {"yelp"},
                 .forms = {{{{"yelp_academic_dataset_review.json"}}}},
                 .by_hand = "its home page asks you to accept its terms first",
                 .read_ratings = [](const FoundFiles& files, ThreadPool& threads) {
                   return read_yelp_reviews(open_file(files, 0), threads);
                 }});
  return all;
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

// The files of a form in these folders, where all needed ones are there.
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
  std::string places;
  for (const fs::path& root : roots) {
    places += fmt::format("\n  {}", (root / set.folders.front()).string());
  }
  const std::string how = set.by_hand.empty() ? fmt::format("\nor run: mcnb data get {}", set.name)
                                              : fmt::format("\n({})", set.by_hand);
  throw Error(
      ErrorKind::kInput,
      fmt::format("data set {}: its files are not here; expected, plain or with .gz:\n  {}\n"
                  "from {}\nin one of the folders:{}{}",
                  set.name, expected_text(set), set.home, places, how));
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
