#include "python/src/logs.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/readers/log_reader.h"
#include "mcnb/logs/log_writer.h"
#include "mcnb/logs/timestamps.h"
#include "mcnb/serve/store_log.h"

namespace mcnb::python {
namespace {

constexpr std::uint64_t kRoundsBetweenSignals = 1024;

std::optional<std::int64_t> time_of(const char* name, const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> time = parse_time(text);
  if (!time) {
    throw py::value_error(fmt::format(
        "{}: expected a time such as 2026-01-31 or 2026-01-31T12:00:00Z, got {}", name, text));
  }
  return time;
}

void look_for_signals() {
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

struct Abandoned {};  // ends the reading of a log that nobody iterates over any more

// The rounds of a log one by one. Another thread reads a little ahead.
class RoundIterator {
 public:
  RoundIterator(std::shared_ptr<const Log> log, bool features)
      : log_(std::move(log)), thread_([this, features] { read(features); }) {}

  ~RoundIterator() {
    const py::gil_scoped_release release;
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  RoundIterator(const RoundIterator&) = delete;
  RoundIterator& operator=(const RoundIterator&) = delete;

  py::tuple next() {
    if (at_ == batch_.size()) {
      take_batch();
    }
    return round_tuple(batch_[at_++]);
  }

 private:
  using Batch = std::vector<LoggedRound>;
  static constexpr std::size_t kBatch = 64;
  static constexpr std::size_t kMostBatches = 4;

  void read(bool features) {
    Batch batch;
    try {
      log_->read(features, [&](const LoggedRound& round) {
        batch.push_back(round);
        if (batch.size() == kBatch) {
          give(std::exchange(batch, {}));
        }
      });
      give(std::move(batch));
    } catch (const Abandoned&) {
      return;
    } catch (...) {
      failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_all();
  }

  void give(Batch batch) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ready_.size() < kMostBatches || abandoned_; });
    if (abandoned_) {
      throw Abandoned{};
    }
    if (!batch.empty()) {
      ready_.push_back(std::move(batch));
    }
    wake_.notify_all();
  }

  void take_batch() {
    {
      const py::gil_scoped_release release;
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !ready_.empty() || ended_; });
      batch_.clear();
      at_ = 0;
      if (!ready_.empty()) {
        batch_ = std::move(ready_.front());
        ready_.pop_front();
        wake_.notify_all();
      }
    }
    if (batch_.empty()) {
      if (failure_) {
        std::rethrow_exception(std::exchange(failure_, nullptr));
      }
      throw py::stop_iteration();
    }
  }

  std::shared_ptr<const Log> log_;
  Batch batch_;
  std::size_t at_ = 0;
  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable wake_;
  std::deque<Batch> ready_;
  bool ended_ = false;
  bool abandoned_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last, because it uses all members above
};

py::object optional_text(const std::string& text) {
  return text.empty() ? py::object(py::none()) : py::str(text);
}

void write_log(const Log& log, const std::string& path, const std::string& format) {
  const LogFormat known = parse_log_format(format);
  const py::gil_scoped_release release;
  FileWriter file(path);
  const std::unique_ptr<LogWriter> writer = make_log_writer(known, file.stream());
  log.read(true, [&](const LoggedRound& round) { writer->write(round); });
  writer->finish();
  file.finish();
}

// The numbers of actions whose features are JSON texts, as the service computes them.
py::array_t<float> hash_features(const std::vector<std::string>& actions,
                                 const std::string& context, std::size_t dimension) {
  LoggedRound round;
  round.context = context;
  for (const std::string& features : actions) {
    round.actions.push_back({"", features});
  }
  RoundFeatures hashed(dimension, false);
  const std::span<const float> numbers = hashed.of(round);
  const std::size_t length = hashed.dimension();
  if (length != dimension) {
    throw py::value_error(fmt::format("features: expected {} numbers, got {}", dimension, length));
  }
  py::array_t<float> array({actions.size(), length});
  std::copy(numbers.begin(), numbers.end(), array.mutable_data());
  return array;
}

}  // namespace

Log::Log(std::string path, std::optional<std::string> text, std::uint64_t skip_bad,
         std::string model, const std::string& from, const std::string& to)
    : path_(std::move(path)),
      text_(std::move(text)),
      skip_bad_(skip_bad),
      model_(std::move(model)),
      from_(time_of("start", from)),
      to_(time_of("end", to)) {}

std::string Log::read(bool features, const VisitRound& visit) const {
  std::uint64_t number = 0;
  const VisitRound guarded = [&](const LoggedRound& round) {
    if (number++ % kRoundsBetweenSignals == 0) {
      look_for_signals();
    }
    visit(round);
  };
  const LogReadOptions options{
      .skip_bad = skip_bad_, .features = features, .from = from_, .to = to_};
  if (text_) {
    const Input input = Input::memory(path_, std::as_bytes(std::span(*text_)));
    return read_log(input, options, guarded).text();
  }
  if (is_store(path_)) {
    const StoreLogReport report =
        read_store_log(path_, {.model = model_, .from = from_, .to = to_}, guarded);
    return fmt::format("model {}: {} decisions, {} still wait", report.model, report.rounds,
                       report.waiting);
  }
  return read_log_file(path_, options, guarded).text();
}

py::tuple round_tuple(const LoggedRound& round) {
  py::list actions;
  for (const RoundAction& action : round.actions) {
    actions.append(py::make_tuple(action.id, optional_text(action.features)));
  }
  const py::object probabilities =
      round.probabilities.empty() ? py::object(py::none()) : py::cast(round.probabilities);
  const py::object eligible =
      round.eligible.empty() ? py::object(py::none()) : py::cast(round.eligible);
  return py::make_tuple(
      round.event, round.user,
      round.time ? py::object(py::str(time_text(*round.time))) : py::object(py::none()), round.slot,
      round.slots, round.slot_id, optional_text(round.slot_features), optional_text(round.context),
      actions, eligible, round.chosen, round.probability, probabilities, round.reward,
      round.default_reward, round.excluded, round.drop_probability);
}

void bind_logs(py::module_& module) {
  py::class_<Log, std::shared_ptr<Log>>(module, "Log")
      .def(py::init<std::string, std::optional<std::string>, std::uint64_t, std::string,
                    const std::string&, const std::string&>(),
           py::arg("path"), py::arg("text"), py::arg("skip_bad"), py::arg("model"),
           py::arg("start"), py::arg("end"))
      .def("write", &write_log, py::arg("path"), py::arg("format"))
      .def_property_readonly("path", &Log::path);
  py::class_<RoundIterator>(module, "RoundIterator")
      .def(py::init<std::shared_ptr<const Log>, bool>(), py::arg("log"), py::arg("features"))
      .def("next", &RoundIterator::next);
  module.def("hash_features", &hash_features, py::arg("actions"), py::arg("context"),
             py::arg("dimension"));
}

}  // namespace mcnb::python
