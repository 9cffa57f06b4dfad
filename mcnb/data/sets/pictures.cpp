// Data sets of pictures.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "mcnb/data/formats/samples_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

const std::string kCifarNames = "batches.meta.txt";
constexpr std::array<const char*, 6> kCifarBatches = {"data_batch_1.bin", "data_batch_2.bin",
                                                      "data_batch_3.bin", "data_batch_4.bin",
                                                      "data_batch_5.bin", "test_batch.bin"};

// One class for each letter or digit.
std::vector<std::string> one_each(std::string_view characters) {
  std::vector<std::string> names;
  for (const char character : characters) {
    names.emplace_back(1, character);
  }
  return names;
}

// Reads the training files, and the test files if they exist.
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

// Downloads of the four files of MNIST, or of a set of its shape, below one URL.
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
      missing.skip("batches that are missing", (files.folder / kCifarBatches[k]).string());
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

}  // namespace

DataSet cifar10_data_set() {
  return {.name = "cifar10",
          .kind = DataKind::kSamples,
          .about = "colour pictures of ten kinds of things, 32 x 32",
          .home = "https://www.cs.toronto.edu/~kriz/cifar.html",
          .licence = "none stated; cite Krizhevsky 2009",
          .folders = {"cifar10", "cifar-10-batches-bin"},
          .forms = {cifar10_files()},
          .published = {.rows = 60'000, .classes = 10},
          .downloads = {{"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "",
                         cifar10_members(), "md5:c32a1d4ab5d03f1284b67883e8d87530"}},
          .read_samples = read_cifar10_files};
}

DataSet emnist_letters_data_set() {
  return {.name = "emnist-letters",
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
          }};
}

DataSet fashion_mnist_data_set() {
  return {
      .name = "fashion-mnist",
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
      }};
}

DataSet mnist_data_set() {
  return {
      .name = "mnist",
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
      }};
}

DataSet notmnist_data_set() {
  return {.name = "notmnist",
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
          .read_samples = read_notmnist_files};
}

}  // namespace mcnb
