#include "mcnb/data/formats/ratings_readers.h"

#include <fmt/core.h>

#include <map>

#include "mcnb/base/random.h"
#include "mcnb/data/formats/rating_rows.h"
#include "tests/data/data_files.h"
#include "tests/numeric/plain_network.h"
#include "tests/sanitizers.h"

namespace mcnb::ratings_readers_test {
namespace {

struct Row {
  std::string user;
  std::string item;
  float value;

  bool operator==(const Row&) const = default;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.user << " " << row.item << " " << row.value;
}

std::vector<Row> rows_of(const Ratings& ratings) {
  std::vector<Row> rows;
  for (std::size_t k = 0; k < ratings.size(); ++k) {
    rows.push_back({ratings.user_names.text(ratings.users[k]),
                    ratings.item_names.text(ratings.items[k]), ratings.values[k]});
  }
  return rows;
}

using Reader = std::function<Ratings(const Input&, ThreadPool&)>;

Ratings read(const Reader& reader, const std::string& text, std::size_t thread_count = 1) {
  ThreadPool threads(thread_count);
  return reader(text_input(text, "r"), threads);
}

std::string refusal_of(const Reader& reader, const std::string& text) {
  return refusal([&] { read(reader, text); });
}

Reader csv(const RatingsCsvOptions& options = {}) {
  return [options](const Input& input, ThreadPool& threads) {
    return read_ratings_csv(input, options, threads);
  };
}

TEST(Movielens, ReadsAllThreeForms) {
  const std::vector<Row> expected = {{"1", "296", 5.0F}, {"1", "306", 3.0F}, {"7", "296", 1.0F}};
  const std::string comma =
      "userId,movieId,rating,timestamp\n1,296,5.0,1147880044\n1,306,3.0,2\n7,296,1,3\n";
  const std::string colons = "1::296::5::978300760\n1::306::3::2\n7::296::1::3\n";
  const std::string tabs = "1\t296\t5\t881250949\n1\t306\t3\t2\n7\t296\t1\t3\n";
  for (const std::string& text : {comma, colons, tabs, gzipped(comma), "\xef\xbb\xbf" + comma}) {
    EXPECT_EQ(rows_of(read(read_movielens, text)), expected);
  }
}

TEST(Movielens, WrongRowsAreRefusedWithTheirPlace) {
  const std::string header = "userId,movieId,rating,timestamp\n";
  const auto refused = [&](const std::string& row) {
    return refusal_of(read_movielens, header + "1,2,3.0,4\n" + row + "\n");
  };
  EXPECT_EQ(refused("1,2,3.0"), "r:3: expected 4 columns, found 3");
  EXPECT_EQ(refused("1,2,3.0,4,5"), "r:3: expected 4 columns, found 5");
  EXPECT_EQ(refused("1,2,0.25,4"), "r:3: rating: expected a number from 0.5 to 5, found '0.25'");
  EXPECT_EQ(refused("1,2,nan,4"), "r:3: rating: expected a number from 0.5 to 5, found 'nan'");
  EXPECT_EQ(refused("1,2,,4"), "r:3: rating: expected a number from 0.5 to 5, found nothing");
  EXPECT_EQ(refused(",2,3,4"), "r:3: user: expected a name, found nothing");
  EXPECT_EQ(refused("1,,3,4"), "r:3: item: expected a name, found nothing");
  EXPECT_EQ(refused("1,\xff,3,4"), "r:3: item: expected a name in UTF-8, found '\\xff'");
  EXPECT_EQ(refusal_of(read_movielens, header), "r: expected ratings, found none");
  EXPECT_EQ(
      refusal_of(read_movielens, "movieId,title\n1,x\n"),
      "r:1: expected the header 'userId,movieId,rating,timestamp' or four columns separated by "
      "'::' or tabs, found 'movieId,title'");
}

TEST(Ratings, NumbersFollowTheOrderOfFirstAppearance) {
  const Ratings ratings = read(read_movielens, "9\t5\t1\t0\n3\t5\t2\t0\n9\t1\t3\t0\n4\t7\t4\t0\n");
  EXPECT_EQ(ratings.users, (std::vector<std::uint32_t>{0, 1, 0, 2}));
  EXPECT_EQ(ratings.items, (std::vector<std::uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(ratings.report.rows, 4U);
  EXPECT_EQ(ratings.report.duplicates, 0U);
}

TEST(Ratings, OfARepeatedPairTheLastStandsAtTheFirstPlace) {
  const Ratings ratings = read(
      read_movielens, "1\t5\t1\t0\n2\t5\t2\t0\n1\t6\t3\t0\n1\t5\t4\t0\n2\t5\t5\t0\n1\t5\t2\t0\n");
  EXPECT_EQ(rows_of(ratings), (std::vector<Row>{{"1", "5", 2}, {"2", "5", 5}, {"1", "6", 3}}));
  EXPECT_EQ(ratings.report.rows, 6U);
  EXPECT_EQ(ratings.report.duplicates, 3U);
}

// A simple reader of ratings, to compare with.
struct Oracle {
  std::vector<Row> rows;
  std::uint64_t duplicates = 0;

  void add(const Row& row) {
    const auto [slot, fresh] = slots.try_emplace({row.user, row.item}, rows.size());
    if (fresh) {
      rows.push_back(row);
    } else {
      rows[slot->second].value = row.value;
      ++duplicates;
    }
  }

  std::map<std::pair<std::string, std::string>, std::size_t> slots;
};

// Users one after the other, as MovieLens has them, or in any order.
TEST(Ratings, AgreeWithThePlainReaderOnAnyNumberOfThreads) {
  constexpr std::uint32_t kRows = kThreadSanitized ? 40'000 : 120'000;
  for (const bool grouped : {true, false}) {
    Oracle oracle;
    std::string text;
    for (std::uint32_t i = 0; i < kRows; ++i) {
      Rng rng(3, Stream::kTest, i, grouped ? 1 : 0);
      const std::uint64_t user = grouped ? i / 60 : rng.below(300) * rng.below(3000000);
      const Row row{rng.chance(0.3) && !grouped ? fmt::format("u{}", user) : std::to_string(user),
                    std::to_string(rng.below(1000)), static_cast<float>(rng.below(10) + 1) / 2};
      oracle.add(row);
      text +=
          fmt::format("{}\t{}\t{:.1f}\t{}\n", row.user, row.item, row.value, rng.below(2000000000));
    }
    ASSERT_GT(oracle.duplicates, 0U);
    const Ratings one = read(read_movielens, text, 1);
    EXPECT_EQ(rows_of(one), oracle.rows);
    EXPECT_EQ(one.report.duplicates, oracle.duplicates);
    EXPECT_EQ(one.report.rows, kRows);
    for (const std::size_t threads : {2U, 8U}) {
      EXPECT_EQ(read(read_movielens, text, threads), one);
    }
    EXPECT_EQ(read(read_movielens, gzipped(text), 2), one);
  }
}

TEST(Yelp, ReadsTheFieldsItNeedsInAnyOrder) {
  const std::string text =
      R"({"review_id":"x","user_id":"qLqCB","business_id":"-1d","stars":4.0,"text":"a\n\"b\"}"})"
      "\n"
      R"({"stars": 1, "business_id": "\u00e9", "user_id": "17", "extra": {"user_id": "no"}})"
      "\n";
  EXPECT_EQ(rows_of(read(read_yelp_reviews, text)),
            (std::vector<Row>{{"qLqCB", "-1d", 4}, {"17", "\xc3\xa9", 1}}));
  EXPECT_EQ(read(read_yelp_reviews, gzipped(text)), read(read_yelp_reviews, text));
}

TEST(Yelp, WrongReviewsAreRefusedWithTheirPlace) {
  const auto refused = [](const std::string& review) {
    return refusal_of(read_yelp_reviews, R"({"user_id":"u","business_id":"b","stars":4})"
                                         "\n" +
                                             review + "\n");
  };
  EXPECT_EQ(refused(R"({"user_id":"u","business_id":"b"})"),
            "r:2: expected a field 'stars', found none");
  EXPECT_EQ(refused(R"({"user_id":7,"business_id":"b","stars":4})"),
            "r:2: user_id: expected a string, found '7'");
  EXPECT_EQ(refused(R"({"user_id":"u","business_id":"b","stars":"4"})"),
            "r:2: stars: expected a number, found '\"4\"'");
  EXPECT_EQ(refused(R"({"user_id":"u","business_id":"b","stars":6})"),
            "r:2: stars: expected a number from 1 to 5, found '6'");
  EXPECT_EQ(refused(R"({"user_id":"u","user_id":"v","business_id":"b","stars":4})"),
            "r:2: user_id: expected once, found twice");
  EXPECT_EQ(refused(R"({"user_id":"","business_id":"b","stars":4})"),
            "r:2: user_id: expected a name, found nothing");
  for (const char* text : {R"({"user_id":"u","business_id":"b","stars":4)", "[1]", "{} {}", "x",
                           R"({'user_id':'u','business_id':'b','stars':4})",
                           "{\"user_id\":\"\xff\",\"business_id\":\"b\",\"stars\":4}"}) {
    EXPECT_EQ(refused(text).find("r:2: expected a JSON object, found "), 0U) << text;
  }
}

TEST(Amazon, ReadsRatingsAndReviews) {
  const std::string text = "0001,A1,5.0,1441324800\nB2,A1,1.0,1441324801\n";
  EXPECT_EQ(rows_of(read(read_amazon_ratings, text)),
            (std::vector<Row>{{"A1", "0001", 5}, {"A1", "B2", 1}}));
  EXPECT_EQ(refusal_of(read_amazon_ratings, "B2,A1,0.0,1\n"),
            "r:1: rating: expected a number from 1 to 5, found '0.0'");
  EXPECT_EQ(rows_of(read(read_amazon_reviews,
                         R"({"overall": 3.0, "reviewerID": "A1", "asin": "0001", "vote": "2"})")),
            (std::vector<Row>{{"A1", "0001", 3}}));
}

TEST(EdgeList, LinksGoBothWaysUnderOneNumbering) {
  const Ratings links = read(
      read_edge_list, "# Nodes: 4\n#\tcomment\n10 20\n20\t10\r\n30 10\n10 20\n5 5\n  20  30 \n");
  EXPECT_EQ(rows_of(links), (std::vector<Row>{{"10", "20", 1},
                                              {"20", "10", 1},
                                              {"10", "30", 1},
                                              {"30", "10", 1},
                                              {"20", "30", 1},
                                              {"30", "20", 1}}));
  EXPECT_EQ(links.user_names, links.item_names);
  EXPECT_EQ(links.user_count(), 3U);
  EXPECT_EQ(links.report.rows, 5U);
  EXPECT_EQ(links.report.duplicates, 2U);
  ASSERT_EQ(links.report.skipped.size(), 1U);
  EXPECT_EQ(links.report.skipped[0], (ReadReport::Skipped{"links of a node to itself", 1, "r:7"}));
}

TEST(EdgeList, WrongLinksAreRefused) {
  EXPECT_EQ(refusal_of(read_edge_list, "0 1\n2\n"), "r:2: expected 2 columns, found 1");
  EXPECT_EQ(refusal_of(read_edge_list, "0 1 0.5\n"), "r:1: expected 2 columns, found 3");
  for (const std::string name : {"x", "-1", "1.5", "01", "1e3", "+1"}) {
    EXPECT_EQ(refusal_of(read_edge_list, "0 1\n1 " + name + "\n"),
              "r:2: node: expected a whole number, found '" + name + "'");
    EXPECT_EQ(refusal_of(read_edge_list, name + " " + name + "\n"),
              "r:1: node: expected a whole number, found '" + name + "'");
  }
  EXPECT_EQ(refusal_of(read_edge_list, "# nothing\n"), "r: expected links, found none");
}

TEST(RatingsCsv, FindsColumnsByTheirUsualNames) {
  const std::vector<Row> expected = {{"u", "a,b", 4.5F}, {"v", "c", -1.0F}};
  for (const char* text : {"user,item,rating\nu,\"a,b\",4.5\nv,c,-1\n",
                           "Stars,movie_id,when,User Id\n4.5,\"a,b\",x,u\n-1,c,,v\n",
                           "who,what,how much\nu,\"a,b\",4.5\nv,c,-1\n", "u,\"a,b\",4.5\nv,c,-1\n",
                           "u, \"a,b\" , 4.5\r\nv , c,-1\r\n"}) {
    EXPECT_EQ(rows_of(read(csv(), text)), expected) << text;
  }
}

TEST(RatingsCsv, RecognisesWhatSeparatesTheColumns) {
  const std::vector<Row> expected = {{"u", "a", 4.5F}, {"v", "c", -1.0F}};
  for (const std::string separator : {",", ";", "\t", "::"}) {
    for (const char* names : {"User-ID,ISBN,Book-Rating\n", ""}) {
      std::string text = std::string(names) + "u,a,4.5\nv,c,-1\n";
      for (std::size_t at = 0; (at = text.find(',', at)) != std::string::npos;) {
        text.replace(at, 1, separator);
        at += separator.size();
      }
      EXPECT_EQ(rows_of(read(csv(), text)), expected) << text;
    }
  }
  // The separator is what gives the most columns: other characters may be inside of fields.
  EXPECT_EQ(rows_of(read(csv(), "u;a,b;4.5;x\nv;c::d;-1;y,z\n")),
            (std::vector<Row>{{"u", "a,b", 4.5F}, {"v", "c::d", -1.0F}}));
}

TEST(RatingsCsv, FindsColumnsByTheNamesGiven) {
  const RatingsCsvOptions options{
      .user_column = "b", .item_column = "user", .rating_column = "7", .separator = ';'};
  EXPECT_EQ(rows_of(read(csv(options), "user;b;7\nx;y;3\n")), (std::vector<Row>{{"y", "x", 3}}));
  EXPECT_EQ(refusal_of(csv(options), "\nuser;b;8\nx;y;3\n"),
            "r:2: expected a column '7' for the rating, found none of that name");
}

TEST(RatingsCsv, TheFirstLineIsAHeaderWhereToldSo) {
  const std::string numbered = "0,1,2\n7,8,9\n";
  EXPECT_EQ(read(csv(), numbered).size(), 2U) << "its fields are numbers";
  EXPECT_EQ(rows_of(read(csv({.header = HeaderLine::kYes}), numbered)),
            (std::vector<Row>{{"7", "8", 9}}));
  EXPECT_EQ(rows_of(read(csv({.header = HeaderLine::kYes}), "rating,user,item\n1,u,i\n")),
            (std::vector<Row>{{"u", "i", 1}}));
  EXPECT_EQ(rows_of(read(csv({.header = HeaderLine::kNo}), "user,item,1\nu,i,2\n")),
            (std::vector<Row>{{"user", "item", 1}, {"u", "i", 2}}));
  EXPECT_EQ(refusal_of(csv({.header = HeaderLine::kNo}), "user,item,rating\nu,i,1\n"),
            "r:1: rating: expected a number, found 'rating'");
  plain::expect_error(ErrorKind::kUsage, "item_column: expected none", [] {
    read(csv({.item_column = "item", .header = HeaderLine::kNo}), "user,item,rating\nu,i,1\n");
  });
}

TEST(RatingsCsv, WrongFilesAreRefused) {
  EXPECT_EQ(
      refusal_of(csv(), "user,item,note\nu,i,1\n"),
      "r:1: expected a column with a usual name for the rating, such as 'rating', found none: "
      "rating_column= names it");
  EXPECT_EQ(refusal_of(csv(), "User-ID,Thing,Book-Rating\nu,i,1\n"),
            "r:1: expected a column with a usual name for the item, such as 'item', found none: "
            "item_column= names it");
  EXPECT_EQ(refusal_of(csv(), "1,2,bad\n1,2,3\n"), "r:1: rating: expected a number, found 'bad'");
  EXPECT_EQ(
      refusal_of(csv(), "1,2\n"),
      "r:1: expected at least 3 columns separated by commas, semicolons, tabs or '::', found 2; "
      "separator= names what separates them");
  EXPECT_EQ(refusal_of(csv({.separator = ';'}), "1,2,3\n"),
            "r:1: expected at least 3 columns separated by ';', found 1; separator= names what "
            "separates them");
  EXPECT_EQ(refusal_of(csv(), "1::2::3::4::5\n"),
            "r:1: expected at most 4 columns separated by '::', found 5");
  EXPECT_NE(refusal_of(csv(), std::string("\x93NUMPY\x01\0v\0{'descr': '<f4'}\n", 26))
                .find("found a NumPy array (.npy)"),
            std::string::npos);
  EXPECT_EQ(refusal_of(csv(), "1,2,3\n1,2,3,4\n"), "r:2: expected 3 columns, found 4");
  EXPECT_EQ(refusal_of(csv(), "1,2,3\n1,\"2,3\n"),
            "r:2: expected the end of a quoted field, found the end of the line");
  EXPECT_EQ(refusal_of(csv(), "user,item,rating\n"), "r: expected ratings, found none");
  EXPECT_EQ(refusal_of(csv(), "\n \n"), "r: expected rows, found blank lines only");
}

TEST(ReadReport, SaysWhatWasLeftOut) {
  ReadReport report{.rows = 10, .duplicates = 2, .skipped = {}};
  report.skip("links of a node to itself", "a:3");
  ReadReport next{.rows = 1, .duplicates = 0, .skipped = {}};
  next.skip("links of a node to itself", "b:1", 4);
  report.add(next);
  EXPECT_EQ(report.text(),
            "11 rows; 2 duplicates; left out: 5 links of a node to itself (first: a:3)");
}

}  // namespace
}  // namespace mcnb::ratings_readers_test
