#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mcnb/serve/engine/engine.h"

namespace mcnb {

// What one step computes, about.
inline constexpr double kStepSeconds = 0.004;

// Makes a text for people on the engine, in several steps with the requests of others between them.
// A step may leave work to the housekeeping, which is done before the next step.
class SteppedJob : public std::enable_shared_from_this<SteppedJob> {
 public:
  virtual ~SteppedJob() = default;
  SteppedJob(const SteppedJob&) = delete;
  SteppedJob& operator=(const SteppedJob&) = delete;

  // As HttpPlan::start.
  bool start(std::function<void()> done);
  // The text, after `done`. Throws RequestRefused if it could not be made.
  std::string text() const;

 protected:
  // Borrows the engine.
  SteppedJob(Engine& engine, std::string model, std::string client);

  const std::string& model() const { return model_; }

  // Runs on the thread that owns the models, and may set `task.look_up`. The last step calls
  // `finish`, itself or in its look-up.
  virtual void step(ControlTask& task, ModelHost& host, std::int64_t time) = 0;
  void finish(std::string text);

 private:
  bool submit();

  Engine& engine_;
  std::string model_;
  std::string client_;
  std::function<void()> done_;
  bool finished_ = false;
  std::optional<ServiceError> error_;
  std::string text_;
};

}  // namespace mcnb
