// Cells in a PostgreSQL database, and programs that share them.

#include "mcnb/experiment/run/shared_cells.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "mcnb/experiment/run/experiment.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "tests/storage/postgres_server.h"
#include "tests/temporary_folder.h"

namespace mcnb::shared_cells_test {
namespace {

using cases::PostgresServer;

Experiment small_experiment(std::uint64_t seeds) {
  return {.environment = {"synthetic", {{"users", "10"}, {"items", "0"}, {"arms", "4"}}},
          .policies = parse_policies("linucb,random"),
          .options = {.rounds = 120, .seeds = seeds, .first_seed = 3, .threads = 2}};
}

std::string text_of(CellResult result) {
  result.seconds = 0.0;
  return result_to_json(result);
}

struct Ran {
  std::vector<std::string> results;  // without times
  std::size_t kept = 0;
  Origins origins;
};

Ran run(const std::vector<Cell>& cells, const CellStore& store, std::uint64_t threads = 2) {
  Ran ran;
  RunControl control;
  ExperimentProgress progress;
  CellFailures failures;
  for (const auto& result :
       run_cells(cells, store, {.threads = threads, .failures = &failures, .origins = &ran.origins},
                 control, progress)) {
    ran.results.push_back(result ? text_of(*result) : "none");
  }
  EXPECT_EQ(progress.cells_done, progress.cells_total);
  ran.kept = progress.cells_kept;
  return ran;
}

// Runs SQL as nobody of ours.
std::int64_t number(const std::string& url, const std::string& sql) {
  const PostgresRows rows = PostgresConnection(url).run(sql);
  return rows.empty() ? 0 : rows.number(0, 0);
}

// As if so much time had passed without heartbeats.
void let_claims_run_out(const std::string& url) {
  PostgresConnection(url).run(
      "UPDATE mcnb_results.cells SET beat = beat - interval '61 seconds' WHERE claim IS NOT NULL");
}

std::vector<CellRow> rows_of(const CellStore& store, const std::vector<Cell>& cells) {
  std::vector<CellRow> rows;
  for (const Cell& cell : cells) {
    rows.push_back(store.row_of(cell));
  }
  return rows;
}

TEST(SharedCells, ADatabaseKeepsWhatAFileKeeps) {
  const TemporaryFolder folder;
  const std::string url = PostgresServer::shared().new_database();
  const std::vector<Cell> cells = cells_of(small_experiment(2));
  RunControl control;
  const CellResult result = *run_cell(cells[0], control);
  {
    const CellStore store(url, "a", "a machine");
    EXPECT_FALSE(store.find(cells[0]));
    store.save(cells[0], result);
    store.save(cells[0], result);
    store.save_failure(cells[1], "it left\nthe finite numbers");
    store.keep_text("plan x", "y\n");
    store.change_text("plan x", [](const auto& before) { return *before + "z"; });
  }
  const CellStore file(folder / "cells.sqlite", "a");
  EXPECT_EQ(file.merge(url), 2U);
  const std::string second_url = PostgresServer::shared().new_database();
  const CellStore copy(second_url, "a");
  EXPECT_EQ(copy.merge(file.name()), 2U);
  EXPECT_EQ(copy.merge(file.name()), 0U);
  const CellStore store(url, "a");
  for (const CellStore* one : {&store, &file, &copy}) {
    EXPECT_EQ(one->size(), 2U);
    ASSERT_TRUE(one->find(cells[0]));
    EXPECT_EQ(result_to_json(one->find(cells[0])->result), result_to_json(result));
    EXPECT_EQ(one->find(cells[0])->origin.machine, "a machine");
    EXPECT_EQ(one->find_failure(cells[1]), "it left\nthe finite numbers");
    EXPECT_FALSE(one->find(cells[2]));
    EXPECT_TRUE(one->has_any_of("synthetic"));
    EXPECT_FALSE(one->has_any_of("movielens"));
    EXPECT_EQ(one->kept_texts(), (std::map<std::string, std::string>{{"plan x", "y\nz"}}));
  }
  EXPECT_FALSE(CellStore(url, "b").find(cells[0])) << "of another program";
  EXPECT_TRUE(CellStore(url, "b").find_any(cells[0]));
}

TEST(SharedCells, ACellHasOneClaimAtATime) {
  const std::string url = PostgresServer::shared().new_database();
  const std::vector<Cell> cells = cells_of(small_experiment(1));
  const CellStore one(url, "a");
  const CellStore two(url, "a");
  const std::vector<std::int64_t> ids = one.claims()->announce(rows_of(one, cells));
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(two.claims()->announce(rows_of(two, cells)), ids);
  EXPECT_EQ(one.size(), 0U) << "no result yet";

  const std::optional<CellClaim> first = one.claims()->claim(ids);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->cell, ids[0]) << "in the order in which they are wanted";
  const std::optional<CellClaim> second = two.claims()->claim(ids);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->cell, ids[1]);
  EXPECT_FALSE(one.claims()->claim(ids)) << "all are claimed";

  two.claims()->give_back(*second);
  const std::optional<CellClaim> again = one.claims()->claim(ids);
  ASSERT_TRUE(again) << "it was given back";
  EXPECT_NE(again->number, second->number);
  two.claims()->give_back(*second);
  EXPECT_FALSE(two.claims()->claim(ids)) << "an old claim gives nothing back";

  EXPECT_TRUE(one.claims()->finish(*again, "{}"));
  EXPECT_FALSE(one.claims()->finish(*again, "{\"other\":1}")) << "once only";
  EXPECT_EQ(one.claims()->finished(ids), std::vector<std::int64_t>{ids[1]});
  EXPECT_EQ(one.find_text(cells[1]), "{}");
}

TEST(SharedCells, AClaimWithoutHeartbeatsGoesToAnother) {
  const std::string url = PostgresServer::shared().new_database();
  const std::vector<Cell> cells = cells_of(small_experiment(1));
  const CellStore late(url, "a");
  const CellStore other(url, "a");
  const std::vector<std::int64_t> ids = late.claims()->announce(rows_of(late, cells));
  const std::optional<CellClaim> lost = late.claims()->claim(ids);
  const std::optional<CellClaim> kept = late.claims()->claim(ids);
  ASSERT_TRUE(lost && kept);
  let_claims_run_out(url);
  late.claims()->beat(std::vector<std::int64_t>{kept->number});
  const std::optional<CellClaim> taken = other.claims()->claim(ids);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->cell, lost->cell);
  EXPECT_FALSE(other.claims()->claim(ids)) << "the other one has a heartbeat";
  // The late one comes back: it can neither save, nor keep alive, nor give back what it lost.
  EXPECT_FALSE(late.claims()->finish(*lost, "{\"late\":1}"));
  late.claims()->beat(std::vector<std::int64_t>{lost->number});
  late.claims()->give_back(*lost);
  EXPECT_FALSE(late.claims()->claim(ids));
  EXPECT_TRUE(other.claims()->finish(*taken, "{}"));
  EXPECT_EQ(other.find_text(cells[0]), "{}");
}

TEST(SharedCells, NoCellIsClaimedTwiceByManyPrograms) {
  const std::string url = PostgresServer::shared().new_database();
  const std::vector<Cell> cells = cells_of(small_experiment(40));
  { const CellStore makes_the_tables(url, "a"); }
  std::mutex mutex;
  std::multiset<std::int64_t> claimed;
  std::vector<std::thread> programs;
  for (int i = 0; i < 6; ++i) {
    programs.emplace_back([&] {
      const CellStore store(url, "a");
      const std::vector<std::int64_t> ids = store.claims()->announce(rows_of(store, cells));
      while (const std::optional<CellClaim> claim = store.claims()->claim(ids)) {
        const std::lock_guard lock(mutex);
        claimed.insert(claim->cell);
      }
    });
  }
  for (std::thread& program : programs) {
    program.join();
  }
  EXPECT_EQ(claimed.size(), cells.size());
  EXPECT_EQ(std::set<std::int64_t>(claimed.begin(), claimed.end()).size(), cells.size());
}

TEST(SharedCells, ManyMayMakeTheTablesAtOnce) {
  const std::string url = PostgresServer::shared().new_database();
  std::vector<std::thread> programs;
  for (int i = 0; i < 6; ++i) {
    programs.emplace_back([&] {
      try {
        const CellStore store(url, "a");
        store.change_text("count", [](const std::optional<std::string>& before) {
          return before.value_or("") + "x";
        });
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& program : programs) {
    program.join();
  }
  EXPECT_EQ(CellStore(url, "a").kept_texts().at("count"), "xxxxxx") << "no change is lost";
}

TEST(SharedCells, ProgramsTogetherHaveTheResultsOfOne) {
  const TemporaryFolder folder;
  const std::string url = PostgresServer::shared().new_database();
  const std::vector<Cell> cells = cells_of(small_experiment(6));
  const Ran alone = run(cells, CellStore(folder / "cells.sqlite", "a"));
  // A program that died held a claim; another one lost a result halfway.
  {
    const CellStore store(url, "a");
    const std::vector<std::int64_t> ids = store.claims()->announce(rows_of(store, cells));
    ASSERT_TRUE(store.claims()->claim(ids));
    let_claims_run_out(url);
    store.claims()->finish(*store.claims()->claim(std::vector<std::int64_t>{ids[5]}), "{\"re");
  }
  Ran rans[3];
  std::vector<std::unique_ptr<CellStore>> stores;
  std::vector<std::thread> programs;
  for (int i = 0; i < 3; ++i) {
    stores.push_back(std::make_unique<CellStore>(url, "a", "machine " + std::to_string(i)));
  }
  for (int i = 0; i < 3; ++i) {
    programs.emplace_back([&, i] { rans[i] = run(cells, *stores[static_cast<std::size_t>(i)]); });
  }
  // Sessions are cut again and again.
  for (int i = 0; i < 5; ++i) {
    PostgresConnection(url).run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mcnb "
        "reproduce' AND datname = current_database()");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread& program : programs) {
    program.join();
  }
  for (const Ran& ran : rans) {
    EXPECT_EQ(ran.results, alone.results);
    EXPECT_EQ(ran.origins.machines, rans[0].origins.machines) << "all took the stored results";
  }
  EXPECT_EQ(number(url, "SELECT count(*) FROM mcnb_results.cells WHERE claim IS NOT NULL"), 0);
  EXPECT_EQ(run(cells, CellStore(url, "a")).kept, cells.size());
}

TEST(SharedCells, AStoppedRunGivesItsCellsBack) {
  const std::string url = PostgresServer::shared().new_database();
  Experiment experiment = small_experiment(4);
  experiment.options.rounds = 100'000'000;
  const std::vector<Cell> cells = cells_of(experiment);
  const CellStore store(url, "a");
  RunControl control;
  std::thread stopper([&] {
    while (control.rounds_done == 0) {
      std::this_thread::yield();
    }
    EXPECT_GE(number(url, "SELECT count(*) FROM mcnb_results.cells WHERE claim IS NOT NULL"), 1);
    control.stop = true;
  });
  ExperimentProgress progress;
  for (const auto& result : run_cells(cells, store, {.threads = 2}, control, progress)) {
    EXPECT_FALSE(result);
  }
  stopper.join();
  EXPECT_EQ(number(url, "SELECT count(*) FROM mcnb_results.cells WHERE claim IS NOT NULL"), 0);
}

TEST(SharedCells, FailuresAreSharedAndErrorsGiveBack) {
  const std::string url = PostgresServer::shared().new_database();
  Experiment experiment = small_experiment(2);
  experiment.environment.options["clusters"] = "4";
  experiment.environment.options["gap"] = "0.9";  // found out only while items are drawn
  const std::vector<Cell> cells = cells_of(experiment);
  const CellStore store(url, "a");
  RunControl control;
  ExperimentProgress progress;
  EXPECT_THROW(run_cells(cells, store, {.threads = 2}, control, progress), Error);
  EXPECT_TRUE(control.stop);
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(number(url, "SELECT count(*) FROM mcnb_results.cells WHERE claim IS NOT NULL"), 0);
  RunControl second;
  CellFailures failures;
  run_cells(cells, store, {.threads = 2, .failures = &failures}, second, progress);
  EXPECT_EQ(failures.size(), cells.size());
  EXPECT_EQ(store.size(), cells.size());
}

TEST(SharedCells, RefusesWhatItCannotDo) {
  const std::string url = PostgresServer::shared().new_database();
  RunControl control;
  ExperimentProgress progress;
  {
    const CellStore store(url, "a");
    try {
      run_cells(cells_of(small_experiment(1)), store, {.fresh = true}, control, progress);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    }
  }
  PostgresConnection(url).run("UPDATE mcnb_results.layout SET number = 7");
  try {
    const CellStore store(url, "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layout 7"), std::string::npos) << error.what();
  }
  try {
    const CellStore store("postgresql://mcnb:secret@127.0.0.1:1/none", "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace mcnb::shared_cells_test
