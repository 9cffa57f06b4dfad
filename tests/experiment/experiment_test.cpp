#include "mcnb/experiment/experiment.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/experiment/contestants.h"
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

// All but the time, bit for bit.
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
  const Ran ran = run(small_experiment(2), CellStore(folder / "cells", "a"));
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
  const Ran one = run(small_experiment(3, 1), CellStore(folder / "one", "a"));
  const Ran four = run(small_experiment(3, 4), CellStore(folder / "four", "a"));
  EXPECT_EQ(texts(one.results), texts(four.results));
}

TEST(Experiment, KeptCellsEqualFreshOnesBitForBit) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells", "a");
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
  const CellStore store(folder / "cells", "a");
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
  EXPECT_EQ(texts(whole.results), texts(run(experiment, CellStore(folder / "other", "a")).results));
}

TEST(Experiment, AStoppedExperimentRunsNothing) {
  const TemporaryFolder folder;
  RunControl control;
  control.stop = true;
  ExperimentProgress progress;
  const CellStore store(folder / "cells", "a");
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
  // Saying a default changes nothing.
  Cell same = cell;
  same.environment.options["arms"] = "10";
  EXPECT_EQ(cell_key(same, "a"), key);
}

TEST(CellStore, DamagedAndForeignFilesCountAsNone) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells", "a");
  const Cell cell{{"synthetic", {}}, parse_policies("random").front(), 1, 50};
  EXPECT_FALSE(store.find(cell).has_value());
  RunControl control;
  const CellResult result = *run_cell(cell, control);
  store.save(cell, result);
  ASSERT_TRUE(store.find(cell).has_value());
  EXPECT_EQ(result_to_json(*store.find(cell)), result_to_json(result));

  const std::string whole = file_contents(store.path_of(cell));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, whole.size() / 2}) {
    put_file(store.path_of(cell), whole.substr(0, size));
    EXPECT_FALSE(store.find(cell).has_value()) << size;
  }
  put_file(store.path_of(cell), "{\"key\": \"another\", \"result\": {}}");
  EXPECT_FALSE(store.find(cell).has_value());
  put_file(store.path_of(cell), "[1, 2]");
  EXPECT_FALSE(store.find(cell).has_value());
  EXPECT_THROW(result_from_json("{}"), Error);
}

TEST(CellStore, RefusesAFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  put_file(folder / "file", "");
  try {
    const CellStore store(folder / "file" / "cells", "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kSystem);
    EXPECT_NE(std::string(error.what()).find("cells"), std::string::npos);
  }
}

TEST(Experiment, AFailingCellStopsTheExperiment) {
  const TemporaryFolder folder;
  Experiment experiment = small_experiment(3);
  experiment.environment.options["clusters"] = "4";
  experiment.environment.options["gap"] = "0.9";  // found out only while items are drawn
  RunControl control;
  ExperimentProgress progress;
  const CellStore store(folder / "cells", "a");
  EXPECT_THROW(run_experiment(experiment, store, false, control, progress), Error);
  EXPECT_TRUE(control.stop);
}

TEST(Experiment, RefusesOptionsOutOfRange) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells", "a");
  Experiment none = small_experiment(0);
  EXPECT_THROW(run(none, store), Error);
  none = small_experiment(1);
  none.options.rounds = 0;
  EXPECT_THROW(run(none, store), Error);
}

}  // namespace
}  // namespace mcnb::experiment_test
