#include "mcnb/experiment/run/experiment.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/storage/sqlite.h"
#include "tests/temporary_folder.h"

namespace mcnb::experiment_test {
namespace {

Experiment small_experiment(std::uint64_t seeds, std::uint64_t threads = 1) {
  return {.environment = {"synthetic", {{"users", "10"}, {"items", "0"}, {"arms", "4"}}},
          .policies = parse_policies("linucb,random,oracle"),
          .options = {.rounds = 120, .seeds = seeds, .first_seed = 3, .threads = threads}};
}

struct Ran {
  std::vector<CellResult> results;
  std::size_t kept;
};

Ran run(const Experiment& experiment, const CellStore& store, bool fresh = false) {
  RunControl control;
  ExperimentProgress progress;
  std::vector<CellResult> results = run_experiment(experiment, store, fresh, control, progress);
  EXPECT_EQ(progress.cells_done, progress.cells_total);
  EXPECT_EQ(control.rounds_done, progress.rounds_total);
  return {std::move(results), progress.cells_kept};
}

// Texts of the results without their times, to compare results bit for bit.
std::vector<std::string> texts(std::vector<CellResult> results) {
  std::vector<std::string> all;
  for (CellResult& result : results) {
    result.seconds = 0.0;
    all.push_back(result_to_json(result));
  }
  return all;
}

TEST(Experiment, RunsEveryPolicyWithEverySeed) {
  const TemporaryFolder folder;
  const Ran ran = run(small_experiment(2), CellStore(folder / "cells.sqlite", "a"));
  ASSERT_EQ(ran.results.size(), 6U);
  const char* policies[] = {"linucb", "random", "oracle"};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(ran.results[i].seed, 3 + i / 3);
    EXPECT_EQ(ran.results[i].policy, policies[i % 3]);
    EXPECT_EQ(ran.results[i].rounds, 120U);
  }
  EXPECT_EQ(ran.kept, 0U);
}

TEST(Experiment, ThreadsDoNotChangeResults) {
  const TemporaryFolder folder;
  const Ran one = run(small_experiment(3, 1), CellStore(folder / "one.sqlite", "a"));
  const Ran four = run(small_experiment(3, 4), CellStore(folder / "four.sqlite", "a"));
  EXPECT_EQ(texts(one.results), texts(four.results));
}

TEST(Experiment, KeptCellsEqualFreshOnesBitForBit) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  run(small_experiment(2), store);
  const Ran resumed = run(small_experiment(4), store);
  EXPECT_EQ(resumed.kept, 6U);
  const Ran fresh = run(small_experiment(4), store, true);
  EXPECT_EQ(fresh.kept, 0U);
  EXPECT_EQ(texts(resumed.results), texts(fresh.results));
  // Kept files include the times.
  const Ran kept = run(small_experiment(4), store);
  EXPECT_EQ(kept.kept, 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(result_to_json(kept.results[i]), result_to_json(fresh.results[i]));
  }
}

TEST(Experiment, GoesOnAfterAnInterruption) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  const Experiment experiment = small_experiment(40, 2);
  RunControl control;
  ExperimentProgress progress;
  std::jthread interrupter([&] {
    while (progress.cells_done < 3) {
      std::this_thread::yield();
    }
    control.stop = true;
  });
  const std::vector<CellResult> part = run_experiment(experiment, store, false, control, progress);
  EXPECT_GE(part.size(), 3U);
  EXPECT_EQ(part.size(), progress.cells_done);
  const Ran whole = run(experiment, store);
  EXPECT_EQ(whole.kept, part.size());
  EXPECT_EQ(whole.results.size(), 120U);
  EXPECT_EQ(texts(whole.results),
            texts(run(experiment, CellStore(folder / "other.sqlite", "a")).results));
}

TEST(Experiment, AStoppedExperimentRunsNothing) {
  const TemporaryFolder folder;
  RunControl control;
  control.stop = true;
  ExperimentProgress progress;
  const CellStore store(folder / "cells.sqlite", "a");
  EXPECT_TRUE(run_experiment(small_experiment(2), store, false, control, progress).empty());
}

TEST(Experiment, EverythingThatMattersIsPartOfTheKey) {
  const Cell cell{{"synthetic", {}}, parse_policies("linucb").front(), 1, 100};
  const std::string key = cell_key(cell, "a");
  std::vector<Cell> others(5, cell);
  others[0].seed = 2;
  others[1].rounds = 101;
  others[2].environment.options["gap"] = "0.05";
  others[3].policy = parse_policies("linucb:alpha=0.3").front();
  others[4].policy = parse_policies("random").front();
  for (const Cell& other : others) {
    EXPECT_NE(cell_key(other, "a"), key);
  }
  EXPECT_NE(cell_key(cell, "b"), key);
  // Giving an option its default value does not change the key.
  Cell same = cell;
  same.environment.options["arms"] = "10";
  same.policy = parse_policies("linucb:users=one").front();
  EXPECT_EQ(cell_key(same, "a"), key);
}

CellResult result_of(const Cell& cell) {
  RunControl control;
  return *run_cell(cell, control);
}

TEST(CellStore, GivesBackWhatWasSavedAlsoAfterItWasOpenedAgain) {
  const TemporaryFolder folder;
  const Cell cell{{"synthetic", {}}, parse_policies("random").front(), 1, 50};
  const CellResult result = result_of(cell);
  {
    const CellStore store(folder / "deep" / "cells.sqlite", "a");
    EXPECT_FALSE(store.find(cell).has_value());
    store.save(cell, result);
  }
  const CellStore store(folder / "deep" / "cells.sqlite", "a");
  ASSERT_TRUE(store.find(cell).has_value());
  EXPECT_EQ(result_to_json(store.find(cell)->result), result_to_json(result));
  EXPECT_FALSE(CellStore(store.name(), "b").find(cell).has_value()) << "of another program";
  EXPECT_EQ(store.size(), 1U);
  EXPECT_THROW(result_from_json("{}"), Error);
}

TEST(CellStore, KeepsWhereAndWhenARunWasMade) {
  const TemporaryFolder folder;
  const Cell cell{{"synthetic", {}}, parse_policies("random").front(), 1, 50};
  Cell old = cell;
  old.seed = 2;
  const CellStore store(folder / "cells.sqlite", "a", "a machine of two cores");
  store.save(cell, result_of(cell));
  store.save(old, result_of(old));
  const Origin origin = store.find(cell)->origin;
  EXPECT_EQ(origin.program, "a");
  EXPECT_EQ(origin.machine, "a machine of two cores");
  EXPECT_EQ(origin.date.size(), 10U) << origin.date;
  EXPECT_EQ(origin.date, store.origin().date) << "but at midnight";
  EXPECT_EQ(CellStore(store.name(), "b").find_any(cell)->origin.machine, origin.machine);
  // Files of earlier versions have neither machine nor date.
  {
    Database database(store.name(), Database::Access::kCreate);
    database.run(
        "UPDATE cells SET result = json_remove(result, '$.machine', '$.date')"
        " WHERE seed = 2");
  }
  ASSERT_TRUE(store.find(old).has_value());
  EXPECT_EQ(store.find(old)->origin.machine, "");

  Origins origins;
  RunControl control;
  ExperimentProgress progress;
  Cell fresh = cell;
  fresh.seed = 3;
  run_cells({cell, old, fresh}, store, {.origins = &origins}, control, progress);
  EXPECT_EQ(origins.programs.at("a"), 3U);
  EXPECT_EQ(origins.machines.at("a machine of two cores"), 2U) << "kept, and run now";
  EXPECT_EQ(origins.first_date, origin.date);
  origins.add({"b", "", "2020-01-01"});
  EXPECT_EQ(origins.first_date, "2020-01-01");
  EXPECT_EQ(origins.last_date, origin.date);
}

TEST(CellStore, ADamagedRunIsMissing) {
  const TemporaryFolder folder;
  const Cell cell{{"synthetic", {}}, parse_policies("random").front(), 1, 50};
  const CellStore store(folder / "cells.sqlite", "a");
  store.save(cell, result_of(cell));
  {
    Database database(store.name(), Database::Access::kCreate);
    database.run("UPDATE cells SET result = '{\"regret\":'");
  }
  EXPECT_FALSE(store.find(cell).has_value());
  EXPECT_FALSE(store.find_any(cell).has_value());
  store.save(cell, result_of(cell));
  EXPECT_TRUE(store.find(cell).has_value());
}

// Several programs start at the same moment, as from a script.
TEST(CellStore, ManyMayMakeTheFileAtOnce) {
  for (int i = 0; i < 10; ++i) {
    const TemporaryFolder folder;
    std::vector<std::thread> programs;
    for (int j = 0; j < 8; ++j) {
      programs.emplace_back([&] {
        try {
          const CellStore store(folder / "cells.sqlite", "a");
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread& program : programs) {
      program.join();
    }
  }
}

TEST(CellStore, AddsTheRunsOfAnotherFileThatItHasNot) {
  const TemporaryFolder folder;
  std::vector<Cell> cells;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    cells.push_back({{"synthetic", {}}, parse_policies("random").front(), seed, 50});
  }
  const CellStore one(folder / "one.sqlite", "a");
  const CellStore two(folder / "two.sqlite", "a");
  one.save(cells[0], result_of(cells[0]));
  one.save(cells[1], result_of(cells[1]));
  two.save(cells[1], result_of(cells[1]));
  two.save(cells[2], result_of(cells[2]));
  EXPECT_EQ(one.merge(two.name()), 1U);
  EXPECT_EQ(one.size(), 3U);
  EXPECT_EQ(one.merge(two.name()), 0U);
  for (const Cell& cell : cells) {
    EXPECT_TRUE(one.find(cell).has_value());
  }
  EXPECT_THROW(one.merge(folder / "none.sqlite"), Error);
}

TEST(CellStore, RefusesOtherFilesAndLeavesThemAlone) {
  const TemporaryFolder folder;
  put_file(folder / "text.sqlite", std::string(5000, 'x'));
  EXPECT_THROW(CellStore(folder / "text.sqlite", "a"), Error);
  EXPECT_EQ(file_contents(folder / "text.sqlite"), std::string(5000, 'x'));
  {
    Database other(folder / "other.sqlite", Database::Access::kCreate);
    other.run("CREATE TABLE mine(a)");
  }
  const std::string before = file_contents(folder / "other.sqlite");
  try {
    const CellStore store(folder / "other.sqlite", "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("another database"), std::string::npos);
  }
  EXPECT_EQ(file_contents(folder / "other.sqlite"), before) << "byte for byte";
}

TEST(CellStore, AReportFindsRunsOfOtherPrograms) {
  const TemporaryFolder folder;
  const Cell cell{{"synthetic", {}}, parse_policies("linucb").front(), 1, 50};
  CellResult result = result_of(cell);
  const CellStore store(folder / "cells.sqlite", "mine");
  EXPECT_FALSE(store.find_any(cell).has_value());
  EXPECT_FALSE(store.has_any_of("synthetic"));
  const CellStore old(store.name(), "old");
  old.save(cell, result);
  ASSERT_TRUE(CellStore(store.name(), "mine").find_any(cell).has_value());
  const CellStore again(store.name(), "mine");
  EXPECT_EQ(again.find_any(cell)->origin.program, "old");
  EXPECT_TRUE(again.has_any_of("synthetic"));
  Cell other = cell;
  other.policy = parse_policies("linucb:alpha=0.7").front();
  EXPECT_FALSE(again.find_any(other).has_value());
  // The store's own results take precedence.
  result.regret = 7.0;
  again.save(cell, result);
  EXPECT_EQ(again.find_any(cell)->origin.program, "mine");
  EXPECT_EQ(again.find_any(cell)->result.regret, 7.0);
  again.save_failure(other, "why");
  EXPECT_EQ(again.find_any_failure(other), "why");
  EXPECT_FALSE(again.find_any_failure(cell).has_value());
}

// Runs from before an option existed have its default value, and their keys do not name it.
TEST(CellStore, AReportFindsRunsFromBeforeAnOption) {
  const TemporaryFolder folder;
  const Cell cell{{"synthetic", {}}, parse_policies("neuucb-one:alpha=0.3").front(), 1, 50};
  Cell unusual = cell;
  unusual.policy = parse_policies("neuucb-one:alpha=0.3:nonnegative=yes").front();
  const CellStore store(folder / "cells.sqlite", "old");
  CellResult result = result_of(cell);
  result.regret = 1.0;
  store.save(cell, result);
  result.regret = 2.0;
  store.save(unusual, result);
  {
    Database database(store.name(), Database::Access::kCreate);
    database.run("UPDATE cells SET key = replace(key, '\"nonnegative\":\"no\",', '')");
  }
  const CellStore now(store.name(), "now");
  EXPECT_FALSE(CellStore(store.name(), "old").find(cell).has_value()) << "the key has changed";
  ASSERT_TRUE(now.find_any(cell).has_value());
  EXPECT_EQ(now.find_any(cell)->result.regret, 1.0);
  ASSERT_TRUE(now.find_any(unusual).has_value());
  EXPECT_EQ(now.find_any(unusual)->result.regret, 2.0);
}

// Such runs took arms as they are and visited all learners, which the preset no longer does.
TEST(CellStore, AReportFindsRunsOfMCnbFromBeforeNormalise) {
  const TemporaryFolder folder;
  const auto cell_of = [](const char* policy) {
    return Cell{{"synthetic", {}}, parse_policies(policy).front(), 1, 50};
  };
  const Cell none = cell_of("mcnb:gamma=0.2:normalise=none");
  const Cell asked = cell_of("mcnb:gamma=0.2");
  const Cell unit = cell_of("mcnb:gamma=0.2:normalise=unit");
  const CellStore store(folder / "cells.sqlite", "old");
  CellResult result = result_of(none);
  result.regret = 1.0;
  store.save(none, result);
  {
    const CellStore today(store.name(), "now");
    EXPECT_TRUE(today.find_any(none).has_value());
    EXPECT_FALSE(today.find_any(asked).has_value()) << "a run of today means what it says";
    Database database(store.name(), Database::Access::kCreate);
    for (const char* option :
         {R"("normalise":"none",)", R"("scan":"sampled",)", R"("scan_limit":"20000",)"}) {
      database.run(fmt::format("UPDATE cells SET key = replace(key, '{}', '')", option).c_str());
    }
  }
  const CellStore now(store.name(), "now");
  EXPECT_TRUE(now.find_any(none).has_value());
  EXPECT_TRUE(now.find_any(asked).has_value());
  EXPECT_FALSE(now.find_any(unit).has_value());
  EXPECT_FALSE(now.find(asked).has_value()) << "it is run again";
  result.regret = 2.0;
  now.save(asked, result);
  EXPECT_EQ(now.find_any(asked)->result.regret, 2.0);
  EXPECT_EQ(now.find_any(none)->result.regret, 1.0);
}

TEST(ExperimentPolicies, MCnbHasThePresetOfTheEnvironmentsKind) {
  const std::vector<PolicySpec> policies =
      parse_policies("mcnb,mcnb:preset=algorithm,linucb,mcnb:gamma=0.4");
  for (const char* name : {"mnist", "samples", "mnist+notmnist"}) {
    const std::vector<PolicySpec> fitted = fitted_to({name, {}}, policies);
    EXPECT_EQ(fitted[0].options.at("preset"), "default-classification");
    EXPECT_EQ(fitted[0].label, "mcnb");
    EXPECT_EQ(fitted[1].options.at("preset"), "algorithm");
    EXPECT_TRUE(fitted[2].options.empty());
    EXPECT_EQ(fitted[3].options.at("preset"), "default-classification");
    EXPECT_EQ(fitted[3].options.at("gamma"), "0.4");
  }
  for (const char* name : {"synthetic", "movielens", "ratings"}) {
    EXPECT_TRUE(fitted_to({name, {}}, policies)[0].options.empty()) << name;
  }
}

TEST(CellStore, KeepsFailuresAndTexts) {
  const TemporaryFolder folder;
  const std::vector<Cell> cells = cells_of(small_experiment(1));
  const CellStore store(folder / "cells.sqlite", "a");
  EXPECT_FALSE(store.find_failure(cells[0]));
  store.save_failure(cells[0], "it left\nthe finite numbers");
  store.keep_text("plan x", "y\n");
  const CellStore merged(folder / "merged.sqlite", "a");
  EXPECT_EQ(merged.merge(store.name()), 1U);
  for (const CellStore* one : {&store, &merged}) {
    EXPECT_EQ(one->find_failure(cells[0]), "it left\nthe finite numbers");
    EXPECT_FALSE(one->find(cells[0]));
    EXPECT_FALSE(one->find_failure(cells[1]));
    EXPECT_EQ(one->kept_texts(), (std::map<std::string, std::string>{{"plan x", "y\n"}}));
  }
  RunControl control;
  ExperimentProgress progress;
  CellFailures failures;
  const auto results =
      run_cells(cells, store, {.threads = 1, .failures = &failures}, control, progress);
  EXPECT_FALSE(results[0]) << "it is not tried again";
  EXPECT_EQ(failures.size(), 1U);
  EXPECT_EQ(progress.cells_done, cells.size());
}

// Failures were plain text before they were JSON.
TEST(CellStore, ReadsFailuresOfOlderPrograms) {
  const TemporaryFolder folder;
  const std::vector<Cell> cells = cells_of(small_experiment(1));
  const CellStore store(folder / "cells.sqlite", "a");
  store.save_failure(cells[0], "new");
  Database(store.name(), Database::Access::kReadWrite)
      .run("UPDATE cells SET result = 'failed: it left {the} finite numbers'");
  EXPECT_EQ(store.find_failure(cells[0]), "it left {the} finite numbers");
  EXPECT_EQ(store.find_any_failure(cells[0]), "it left {the} finite numbers");
  EXPECT_FALSE(store.find(cells[0]));
}

TEST(CellStore, AMergeLeavesWhatIsNoResultsFileAlone) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  put_file(folder / "empty.sqlite", "");
  EXPECT_THROW(store.merge(folder / "empty.sqlite"), Error);
  EXPECT_EQ(file_contents(folder / "empty.sqlite"), "");
}

TEST(CellStore, RefusesAFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  put_file(folder / "file", "");
  try {
    const CellStore store(folder / "file" / "cells.sqlite", "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_NE(std::string(error.what()).find("cannot write"), std::string::npos);
  }
}

TEST(Experiment, AFailingCellStopsTheExperiment) {
  const TemporaryFolder folder;
  Experiment experiment = small_experiment(3);
  experiment.environment.options["clusters"] = "4";
  experiment.environment.options["gap"] = "0.9";  // found out only while items are drawn
  RunControl control;
  ExperimentProgress progress;
  const CellStore store(folder / "cells.sqlite", "a");
  EXPECT_THROW(run_experiment(experiment, store, false, control, progress), Error);
  EXPECT_TRUE(control.stop);
}

TEST(Experiment, RefusesOptionsOutOfRange) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells.sqlite", "a");
  Experiment none = small_experiment(0);
  EXPECT_THROW(run(none, store), Error);
  none = small_experiment(1);
  none.options.rounds = 0;
  EXPECT_THROW(run(none, store), Error);
}

}  // namespace
}  // namespace mcnb::experiment_test
