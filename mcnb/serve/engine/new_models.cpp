// Models that are made: what they would take is estimated first.

#include <fmt/core.h>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/base/error.h"
#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/model/computing_kind.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostModels = 1000;
constexpr double kMostSecondsToMake = 10.0;
constexpr double kMostSecondsOfAction = 1.0;  // to score it for the first user
constexpr double kMadeOfFile = 4.0;           // of the file's bytes, for a model that begins there
constexpr double kMadeOfModel = 3.0;          // the same of another model's memory
constexpr double kMadeBesides = 1.3;          // memory while a model is made, of what it takes then

// Refuses what would take too long.
void check_time(const PolicySize& size, const char* model) {
  const auto refuse = [&](const char* what, double seconds, double most) {
    refuse_request(ErrorCode::kBadOption,
                   fmt::format("{} is too large: {} would take an estimated {:.1f} s, "
                               "expected at most {:.0f} s; lower dimension, width or depth",
                               model, what, seconds, most));
  };
  if (size.seconds_to_make() > kMostSecondsToMake) {
    refuse("making it", size.seconds_to_make(), kMostSecondsToMake);
  }
  if (size.seconds_of_arm(1.0) > kMostSecondsOfAction) {
    refuse("the score of one action", size.seconds_of_arm(1.0), kMostSecondsOfAction);
  }
}

// The options of a new model of which these are named.
ModelOptions options_named(const OptionValues& given) {
  ModelOptions options;
  for (const auto& [name, text] : given) {
    set_option(options, name, text);
  }
  if (!given.contains("policy")) {
    set_default_policy(options);
  }
  bound_histories(options);
  return options;
}

void change_settings(ModelOptions& options, const OptionValues& given) {
  const OptionValues own = option_values(options);
  for (const auto& [name, text] : given) {
    if (is_setting(name)) {
      change_setting(options, name, text);
      continue;
    }
    const auto found = own.find(name);
    if (found == own.end() || found->second != text) {
      refuse_option(name, "none, because a model keeps it when it begins at another one", text);
    }
  }
}

}  // namespace

void ModelHost::check_new_model(const std::string& name) const {
  if (!is_model_name(name)) {
    refuse_request(ErrorCode::kBadName,
                   fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName),
                   "name");
  }
  if (models_.contains(name) || reserved_.contains(name)) {
    refuse_request(ErrorCode::kModelExists, fmt::format("there is a model \"{}\" already", name),
                   "name");
  }
  if (models_.size() + reserved_.size() >= kMostModels) {
    refuse_request(ErrorCode::kTooManyModels, fmt::format("there are {} models", kMostModels));
  }
}

ModelOptions ModelHost::plan(const std::string& name, ModelOptions options) {
  check_new_model(name);
  PolicySize size;
  try {
    bound_histories(options);
    size = Model::size_of(options, threads_);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadOption, error.what());
  }
  const double learners = static_cast<double>(std::max<std::uint64_t>(options.groups, 1));
  reserve(name, size, size.bytes(learners, 1.0, 1.0), "the model");
  return options;
}

ModelOptions ModelHost::plan_from(const std::string& name, ModelSource& source) {
  check_new_model(name);
  try {
    if (source.model.empty()) {
      OptionValues given = source.given;
      if (is_policy_file(source.file.path)) {  // which says what its policy is
        std::erase_if(given, [](const auto& option) {
          return option.first == "policy" || option.first.starts_with("options.");
        });
      }
      ModelOptions options = options_named(given);
      const double bytes = kMadeOfFile * static_cast<double>(source.file.bytes);
      reserve(name, Model::size_of(options, threads_), bytes, "the model");
      return options;
    }
    Hosted& hosted = find(source.model);
    if (is_busy(source.model)) {
      refuse_request(ErrorCode::kInProgress, "the model computes a large decision", "from");
    }
    source.options = hosted.model->options();
    ModelOptions options = source.options;
    change_settings(options, source.given);
    const PolicySize size = Model::size_of(options, threads_);
    source.state = std::make_shared<SavedState>(*hosted.model, store_id_, most_copied_);
    source.store_id = store_id_;
    // The policy that answers may be one that was promoted; the copy is made with the first one.
    source.options.policy = hosted.model->first_policy();
    reserve(name, size, kMadeOfModel * static_cast<double>(hosted.model->memory_bytes()),
            "the model");
    return options;
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadOption, error.what());
  }
}

// Reserves the memory of a policy that is to be made, and some for making it. Refuses it if there
// is not enough, or if making or using it would take too long. `what` is made, for people.
void ModelHost::reserve(const std::string& name, const PolicySize& size, double bytes,
                        const char* what) {
  bytes *= kMadeBesides;
  const std::string taken =
      fmt::format("{} would take an estimated {} of memory", what, memory_text(bytes));
  if (bytes > memory_.limit()) {
    refuse_request(ErrorCode::kBadOption,
                   fmt::format("{}, more than the {} that all models may take (memory_gigabytes)",
                               taken, memory_text(memory_.limit())));
  }
  check_time(size, what);
  if (!memory_.has_room(bytes, MemoryAccount::Use::kModel)) {
    throw RequestRefused(memory_.refusal(taken));
  }
  reserved_[name] = bytes;
  memory_.reserve(bytes);
}

void ModelHost::release(const std::string& name) {
  const auto reserved = reserved_.extract(name);
  if (!reserved.empty()) {
    memory_.reserve(-reserved.mapped());
  }
}

void ModelHost::adopt(const std::string& name, std::unique_ptr<Model> model, const Start* start) {
  release(name);
  if (!model) {
    return;
  }
  Hosted hosted;
  hosted.name = name;
  hosted.id = storage_.log().new_model_id();
  hosted.model = std::move(model);
  hosted.model->report_ends_to(&ended_);
  memory_.measure(hosted.id, static_cast<double>(hosted.model->memory_bytes()));
  hosted.computed_by = computing_kind();
  batch_.models.emplace_back(StoredModel{.id = hosted.id,
                                         .name = name,
                                         .options = option_values(hosted.model->options()),
                                         .computed_by = hosted.computed_by});
  if (start != nullptr) {
    hosted.started = true;
    hosted.last_position = hosted.rows_since_snapshot = 1;
    batch_.rows.push_back(
        {hosted.id, 1, EventKind::kStart, start->time, kAllUsers, encode_event(*start)});
  }
  models_.emplace(name, std::move(hosted));
}

void ModelHost::create(const std::string& name, const ModelOptions& options) {
  const ModelOptions planned = plan(name, options);
  std::unique_ptr<Model> model;
  try {
    model = std::make_unique<Model>(planned, threads_);
  } catch (const Error& error) {
    adopt(name, nullptr);
    refuse_request(ErrorCode::kBadOption, error.what());
  } catch (const std::exception& error) {
    adopt(name, nullptr);
    throw RequestRefused(
        memory_.refusal(fmt::format("the model cannot be made: {}", error.what())));
  }
  adopt(name, std::move(model));
}

void ModelHost::measure_memory() {
  for (const auto& [name, hosted] : models_) {
    memory_.measure(hosted.id, static_cast<double>(hosted.model->memory_bytes()));
  }
}

}  // namespace mcnb
