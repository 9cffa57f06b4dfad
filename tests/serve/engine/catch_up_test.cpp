// A host that follows the log of another one, as the next owner does before the first one goes.

#include <gtest/gtest.h>

#include "mcnb/serve/engine/model_host.h"
#include "tests/long_tests.h"
#include "tests/serve/model_cases.h"
#include "tests/serve/store/memory_storage.h"

namespace mcnb::catch_up_test {
namespace {

using namespace cases;

// An owner with some models, and what can happen to them.
class Owner {
 public:
  Owner(Storage& storage, Rng& rng) : storage_(storage), host_(storage, threads_), rng_(rng) {
    host_.recover();
  }

  void do_something() {
    time_ += 500;
    const std::vector<ModelReport> models = host_.reports();
    if (models.empty() || rng_.chance(0.03)) {
      host_.create("m" + std::to_string(made_++), small_model());
      commit();
      return;
    }
    const std::string model = models[rng_.below(models.size())].name;
    const double what = rng_.uniform();
    if (what < 0.02 && models.size() > 1) {
      host_.remove(model);
      commit();
    } else if (what < 0.06) {
      keep_snapshot(model, false);
    } else if (what < 0.09) {
      forget(model);
    } else if (what < 0.2) {
      host_.expire(time_, 4);
      commit();
    } else {
      decide(model);
    }
  }

 private:
  void commit() {
    host_.learn();
    storage_.log().commit(host_.take_batch());
  }
  void decide(const std::string& model) {
    const RankRequest request = request_of(events_++, "user-" + std::to_string(rng_.below(4)));
    host_.decide(model, {&request}, time_);
    if (rng_.chance(0.7)) {
      host_.reward(model, {request.event_id, "r", time_ + 100, 1.0F});
    }
    commit();
  }
  void keep_snapshot(const std::string& model, bool alone) {
    const SnapshotJob job = host_.snapshot(model);
    storage_.snapshots().write(job.model, job.position, [&] { return job.state->next(); });
    if (alone) {
      storage_.snapshots().remove_before(job.model, job.position);
    }
    host_.snapshot_written(job.model, job.position, alone);
  }
  void forget(const std::string& model) {
    const std::vector<Erasure> erasures =
        host_.forget(model, "user-" + std::to_string(rng_.below(4)), time_);
    commit();
    keep_snapshot(model, true);
    for (const Erasure& erasure : erasures) {
      storage_.erase_user(erasure);
    }
  }

  Storage& storage_;
  ThreadPool threads_{1};
  ModelHost host_;
  Rng& rng_;
  std::int64_t time_ = 1000;
  int made_ = 0;
  std::uint64_t events_ = 0;
};

TEST(CatchingUp, GivesTheStateOfTheLogWheneverItSaysSo) {
  const int worlds = long_tests() ? 500 : 20;
  int caught_up = 0;
  int anew = 0;
  for (int world = 0; world < worlds; ++world) {
    Rng rng(test_seed() + 17, Stream::kTest, static_cast<std::uint64_t>(world));
    MemoryDisk disk;
    const std::unique_ptr<Storage> storage = disk.open();
    Owner owner(*storage, rng);
    ThreadPool threads(1);
    ModelHost follower(*storage, threads);
    Recovery recovery = follower.recover();
    for (int step = 0; step < 80; ++step) {
      owner.do_something();
      if (!rng.chance(0.2)) {
        continue;
      }
      if (follower.catch_up(recovery)) {
        ++caught_up;
      } else {
        recovery = follower.recover();
        ++anew;
      }
      ModelHost fresh(*storage, threads);
      fresh.recover();
      ASSERT_EQ(follower.digests(), fresh.digests()) << "world " << world << ", step " << step;
    }
  }
  EXPECT_GT(caught_up, 2 * anew);
  EXPECT_GT(anew, 0) << "rows of forgotten users are gone";
}

}  // namespace
}  // namespace mcnb::catch_up_test
