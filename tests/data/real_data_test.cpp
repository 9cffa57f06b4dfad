// Tests with the public files, if installed. The counts are those that their sources state.

#include <algorithm>

#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/formats/samples_readers.h"
#include "tests/data/data_files.h"

namespace mcnb::real_data_test {
namespace {

ThreadPool& threads() {
  static ThreadPool pool(2);
  return pool;
}

Samples read_idx_pair(const std::filesystem::path& start, const IdxOptions& options = {}) {
  const std::string name = start.string();
  return read_idx(Input::file(name + "-images-idx3-ubyte.gz"),
                  Input::file(name + "-labels-idx1-ubyte.gz"), options);
}

std::vector<std::size_t> class_sizes(const Samples& samples) {
  std::vector<std::size_t> sizes(samples.class_count());
  for (const std::uint16_t label : samples.labels) {
    ++sizes[label];
  }
  return sizes;
}

using Sizes = std::vector<std::size_t>;

TEST(RealData, Movielens) {
  MCNB_NEED_REAL_DATA(data);
  const Ratings large = read_movielens(Input::file(data / "movielens/ratings.csv.gz"), threads());
  EXPECT_EQ(large.size(), 391223U);
  EXPECT_EQ(large.user_count(), 2687U);
  EXPECT_EQ(large.report.duplicates, 0U);
  const Input file = Input::file(data / "movielens-small/ratings.csv");
  const Ratings small = read_movielens(file, threads());
  EXPECT_EQ(small.size(), 100836U);
  EXPECT_EQ(small.user_count(), 610U);
  EXPECT_EQ(small.item_count(), 9724U);
  const auto [lowest, highest] = std::ranges::minmax(small.values);
  EXPECT_EQ(lowest, 0.5F);
  EXPECT_EQ(highest, 5.0F);
  EXPECT_EQ(read_ratings_csv(file, {}, threads()), small);
}

TEST(RealData, Yelp) {
  MCNB_NEED_REAL_DATA(data);
  const Ratings reviews =
      read_yelp_reviews(Input::file(data / "yelp/yelp_academic_dataset_review.json.gz"), threads());
  EXPECT_EQ(reviews.report.rows, 198397U);
  EXPECT_EQ(reviews.user_count(), 16239U);
  EXPECT_EQ(reviews.item_count(), 14284U);
}

TEST(RealData, Amazon) {
  MCNB_NEED_REAL_DATA(data);
  const Ratings ratings =
      read_amazon_ratings(Input::file(data / "amazon/AMAZON_FASHION.csv.gz"), threads());
  EXPECT_EQ(ratings.report.rows, 3176U);
  EXPECT_EQ(ratings.size() + ratings.report.duplicates, 3176U);
  EXPECT_GT(ratings.report.duplicates, 0U);
  EXPECT_EQ(ratings.item_names.text(0), "B000K2PJ4K");
  EXPECT_EQ(ratings.user_names.text(0), "ALJ66O1Y6SLHA");
}

TEST(RealData, Facebook) {
  MCNB_NEED_REAL_DATA(data);
  const Ratings links =
      read_edge_list(Input::file(data / "facebook/facebook_combined.txt.gz"), threads());
  EXPECT_EQ(links.report.rows, 88234U);
  EXPECT_EQ(links.report.duplicates, 0U);
  EXPECT_EQ(links.size(), 2U * 88234U);
  EXPECT_EQ(links.user_count(), 4039U);
}

TEST(RealData, Mnist) {
  MCNB_NEED_REAL_DATA(data);
  const Samples test = read_idx_pair(data / "mnist/t10k");
  EXPECT_EQ(class_sizes(test), (Sizes{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));
  std::vector<Samples> parts;
  parts.push_back(read_idx_pair(data / "mnist/train"));
  EXPECT_EQ(parts[0].size(), 60000U);
  parts.push_back(test);
  const Samples all = join_samples(std::move(parts));
  EXPECT_EQ(all.size(), 70000U);
  EXPECT_EQ(all.dimension, 784U);
  EXPECT_TRUE(std::ranges::equal(all.row(69999), test.row(9999)));
}

TEST(RealData, FashionMnist) {
  MCNB_NEED_REAL_DATA(data);
  EXPECT_EQ(class_sizes(read_idx_pair(data / "fashion-mnist/train")), Sizes(10, 6000));
  EXPECT_EQ(class_sizes(read_idx_pair(data / "fashion-mnist/t10k")), Sizes(10, 1000));
}

TEST(RealData, EmnistLetters) {
  MCNB_NEED_REAL_DATA(data);
  const Samples letters =
      read_idx_pair(data / "emnist/emnist-letters-train", {.transpose = true, .first_label = 1});
  EXPECT_EQ(letters.size(), 3536U);
  EXPECT_EQ(letters.class_count(), 26U);
}

// The pictures are the same in both forms, byte for byte.
TEST(RealData, Notmnist) {
  MCNB_NEED_REAL_DATA(data);
  const Samples idx = read_idx_pair(data / "notmnist/train");
  const Samples png = read_notmnist(data / "notmnist/notMNIST_small.tar.gz", threads());
  EXPECT_EQ(png.size(), 18724U);
  EXPECT_EQ(png.class_count(), 10U);
  EXPECT_EQ(png.labels, idx.labels);
  EXPECT_EQ(png.values, idx.values);
}

TEST(RealData, Cifar10) {
  MCNB_NEED_REAL_DATA(data);
  const Samples samples =
      read_cifar10(Input::file(data / "cifar10/batches.meta.txt"),
                   std::vector{Input::file(data / "cifar10/data_batch_1.bin.gz")});
  EXPECT_EQ(samples.size(), 10000U);
  EXPECT_EQ(samples.dimension, 3072U);
  EXPECT_EQ(samples.class_names[0], "airplane");
  EXPECT_EQ(samples.class_names[9], "truck");
}

TEST(RealData, Shuttle) {
  MCNB_NEED_REAL_DATA(data);
  EXPECT_EQ(class_sizes(read_shuttle(Input::file(data / "shuttle/shuttle.trn"), threads())),
            (Sizes{34108, 37, 132, 6748, 2458, 6, 11}));
  EXPECT_EQ(read_shuttle(Input::file(data / "shuttle/shuttle.tst"), threads()).size(), 14500U);
}

TEST(RealData, Mushroom) {
  MCNB_NEED_REAL_DATA(data);
  const Samples samples =
      read_mushroom(Input::file(data / "mushroom/agaricus-lepiota.data"), threads());
  EXPECT_EQ(class_sizes(samples), (Sizes{4208, 3916}));
  std::size_t missing = 0;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    missing += samples.row(k)[60] == 1.0F ? 1 : 0;
  }
  EXPECT_EQ(missing, 2480U);
}

}  // namespace
}  // namespace mcnb::real_data_test
