#include "mcnb/serve/engine/engine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace mcnb {
namespace {

using namespace std::chrono_literals;

// Waiting times end while nobody asks for anything: look for them this often.
constexpr auto kComputeWait = 10ms;
constexpr auto kWriteWait = 1s;
// The store wants its maintenance several times a second.
constexpr auto kHousekeepingWait = 50ms;
constexpr auto kFitWait = 1s;
constexpr int kFitNiceness = 10;  // fits give way to everything that answers clients

}  // namespace

Engine::Engine(const EngineOptions& options, Clock& clock, Metrics& metrics)
    : Engine(open_storage(options.url.empty() ? options.folder.string() : options.url,
                          StorageAccess::kOwn, options.store),
             options, clock, metrics) {}

Engine::Engine(std::unique_ptr<Storage> storage, const EngineOptions& options, Clock& clock,
               Metrics& metrics)
    : core_(std::move(storage), options, clock, metrics) {
  // Each loop ends when its stage has nothing left to do after `close`.
  housekeeping_ = std::thread([this] {
    while (core_.housekeep(kHousekeepingWait)) {
    }
  });
  writer_ = std::thread([this] {
    while (core_.write(kWriteWait)) {
    }
  });
  acknowledger_ = std::thread([this] {
    while (core_.acknowledge(kWriteWait)) {
    }
  });
  fitter_ = std::thread([this] {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kFitNiceness);
    while (core_.fit(kFitWait)) {
    }
  });
  builder_ = std::thread([this] {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kFitNiceness);
    while (core_.build(kFitWait)) {
    }
  });
  computer_ = std::thread([this] {
    while (core_.compute(kComputeWait)) {
    }
  });
}

Engine::~Engine() { stop(); }

void Engine::stop() {
  core_.close();
  for (std::thread* thread :
       {&computer_, &fitter_, &builder_, &writer_, &acknowledger_, &housekeeping_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

}  // namespace mcnb
