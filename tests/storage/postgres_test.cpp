#include "mcnb/storage/postgres.h"

#include <gtest/gtest.h>

#include "tests/storage/postgres_server.h"

namespace mcnb::postgres_test {
namespace {

using cases::PostgresServer;

std::string url() {
  static const std::string kUrl = PostgresServer::shared().new_database();
  return kUrl;
}

TEST(Postgres, ValuesComeBackAsTheyWereGiven) {
  PostgresConnection connection(url());
  const std::string bytes("\0\xff'\\\n", 5);
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const PostgresRows rows =
      connection.run("SELECT $1, $2, $3, true, 7::int4, NULL::int8, (-3)::int2",
                     PostgresValues().number(least).text("caf\u00e9").bytes(bytes));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.number(0, 0), least);
  EXPECT_EQ(rows.text(0, 1), "caf\u00e9");
  EXPECT_EQ(rows.bytes(0, 2), bytes);
  EXPECT_EQ(rows.number(0, 3), 1);
  EXPECT_EQ(rows.number(0, 4), 7);
  EXPECT_TRUE(rows.is_null(0, 5));
  EXPECT_EQ(rows.number(0, 6), -3);
}

TEST(Postgres, ArraysBecomeRows) {
  PostgresConnection connection(url());
  const std::vector<std::int64_t> numbers{3, -1, 9'000'000'000};
  const std::vector<std::string_view> texts{"a", "", std::string_view("\0b", 2)};
  for (std::size_t count : {std::size_t{0}, numbers.size()}) {
    const PostgresRows rows = connection.run("SELECT * FROM unnest($1, $2)",
                                             PostgresValues()
                                                 .numbers(std::span(numbers).first(count))
                                                 .all_bytes(std::span(texts).first(count)));
    ASSERT_EQ(rows.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(rows.number(i, 0), numbers[i]);
      EXPECT_EQ(rows.bytes(i, 1), texts[i]);
    }
  }
}

TEST(Postgres, WhatIsSentTogetherHappensWholeOrNotAtAll) {
  PostgresConnection connection(url());
  connection.run("CREATE TABLE whole(a bigint PRIMARY KEY)");
  for (int i = 0; i < 3; ++i) {  // also with statements that are prepared already
    connection.send("INSERT INTO whole VALUES($1)", PostgresValues().number(1));
    connection.send("INSERT INTO whole VALUES($1)", PostgresValues().number(1));
    connection.send("INSERT INTO whole VALUES(3)");
    try {
      connection.finish();
      FAIL() << "a key was taken twice";
    } catch (const PostgresError& error) {
      EXPECT_EQ(error.state(), "23505");
      EXPECT_FALSE(error.lost());
    }
    EXPECT_EQ(connection.run("SELECT count(*) FROM whole").number(0, 0), 0);
  }
  connection.send("INSERT INTO whole VALUES($1)", PostgresValues().number(1));
  connection.send("INSERT INTO whole VALUES($1)", PostgresValues().number(2));
  connection.send("SELECT count(*) FROM whole");
  const std::vector<PostgresRows> all = connection.finish();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].changed(), 1U);
  EXPECT_EQ(all[2].number(0, 0), 2);
}

TEST(Postgres, RowsCanBeReadOneByOne) {
  PostgresConnection connection(url());
  for (int i = 0; i < 2; ++i) {
    std::int64_t sum = 0;
    connection.stream("SELECT * FROM generate_series(1, $1)", PostgresValues().number(10'000),
                      [&](const PostgresRows& row) {
                        ASSERT_EQ(row.size(), 1U);
                        sum += row.number(0, 0);
                      });
    EXPECT_EQ(sum, 50'005'000);
    EXPECT_THROW(
        connection.stream("SELECT 1 / $1", PostgresValues().number(0), [](const PostgresRows&) {}),
        PostgresError);
    EXPECT_FALSE(connection.lost());
  }
}

TEST(Postgres, WarningsOfAnExchangeAreKept) {
  PostgresConnection connection(url());
  connection.run("SELECT 1");
  EXPECT_TRUE(connection.warnings().empty());
  connection.run("DO $$ BEGIN RAISE WARNING 'beware'; END $$");
  ASSERT_EQ(connection.warnings().size(), 1U);
  EXPECT_EQ(connection.warnings()[0], "01000: beware");
  connection.run("SELECT 1");
  EXPECT_TRUE(connection.warnings().empty());
}

TEST(Postgres, ASessionThatTheServerEndsIsLost) {
  PostgresConnection connection(url());
  PostgresConnection other(url());
  const std::int64_t process = connection.run("SELECT pg_backend_pid()").number(0, 0);
  other.run("SELECT pg_terminate_backend($1::int, 5000)", PostgresValues().number(process));
  try {
    connection.run("SELECT 1");
    FAIL() << "the session was ended";
  } catch (const PostgresError& error) {
    EXPECT_TRUE(error.lost());
  }
  EXPECT_TRUE(connection.lost());
  EXPECT_THROW(connection.run("SELECT 1"), PostgresError);
}

TEST(Postgres, AServerThatDoesNotAnswerInTimeIsLost) {
  PostgresConnection connection(url(), {.patience_seconds = 0.2});
  EXPECT_THROW(connection.run("SELECT pg_sleep(60)"), PostgresError);
  EXPECT_TRUE(connection.lost());
}

TEST(Postgres, NamesShowNoPasswords) {
  EXPECT_EQ(postgres_name("postgresql://ann:secret@db.example:6543/served"),
            "postgresql://db.example:6543/served");
  try {
    PostgresConnection connection("postgresql://ann:secret@127.0.0.1:1/served");
    FAIL() << "nobody listens there";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
  try {
    postgres_name("postgresql://ann:secret@[/served");
    FAIL() << "this is no URL";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace mcnb::postgres_test
