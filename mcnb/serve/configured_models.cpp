#include "mcnb/serve/configured_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

constexpr std::string_view kConfiguredPrefix = "options.";

// An option that the configuration names with another value than the model has.
struct Difference {
  std::string option;
  std::string has;    // the model
  std::string named;  // by the configuration
};

std::vector<Difference> differences(const ModelOptions& model, const ModelOptions& configured,
                                    const OptionValues& named) {
  std::vector<Difference> found;
  const auto compare = [&](const std::string& option, const std::string& has,
                           const std::string& wanted) {
    if (has != wanted) {
      found.push_back({option, has, wanted});
    }
  };
  const OptionValues own = option_values(model);
  const OptionValues wanted = option_values(configured);
  const bool same_policy = model.policy.name == configured.policy.name;
  const OptionValues own_policy = resolved_options(model.policy);
  const OptionValues wanted_policy = resolved_options(configured.policy);
  bool has_policy_options = false;
  for (const auto& [option, text] : named) {
    if (!option.starts_with(kConfiguredPrefix)) {
      compare(option, own.at(option), wanted.at(option));
      continue;
    }
    has_policy_options = true;
    if (same_policy) {
      const std::string inner = option.substr(kConfiguredPrefix.size());
      compare(option, own_policy.at(inner), wanted_policy.at(inner));
    }
  }
  if (has_policy_options && !named.contains("policy")) {
    compare("policy", model.policy.name, configured.policy.name);
  }
  return found;
}

// Gives the engine a task about the model and waits for it.
template <class AnyTask>
void run_on(Engine& engine, const std::string& model, const std::shared_ptr<AnyTask>& task) {
  std::promise<void> done;
  task->model = model;
  task->done = [&] { done.set_value(); };
  if (!engine.submit(task)) {
    throw Error(ErrorKind::kLimit, "too many models in the configuration");
  }
  done.get_future().wait();
  if (task->error) {
    throw Error(ErrorKind::kUsage, fmt::format("model {}: {}", model, task->error->message));
  }
}

void configure(Engine& engine, const std::string& name, const ModelOptions& model,
               const ModelOptions& configured, const OptionValues& named) {
  OptionValues settings;
  for (const Difference& difference : differences(model, configured, named)) {
    if (is_setting(difference.option)) {
      settings[difference.option] = difference.named;
      log_info("a setting was changed as the configuration says", {{"model", name},
                                                                   {"setting", difference.option},
                                                                   {"from", difference.has},
                                                                   {"to", difference.named}});
    } else {
      log_warning(
          "the configuration names another value of an option that is fixed; the model "
          "keeps its own: make a new model, or correct the configuration",
          {{"model", name},
           {"option", difference.option},
           {"model has", difference.has},
           {"configuration says", difference.named}});
    }
  }
  if (!settings.empty()) {
    auto task = std::make_shared<ControlTask>();
    task->work = [&](ModelHost& host, Storage&, std::int64_t time) {
      host.change(name, settings, time);
    };
    run_on(engine, name, task);
  }
}

// Adds the challengers that the model lacks.
void add_challengers(Engine& engine, const std::string& model,
                     const std::map<std::string, ChallengerOptions>& wanted) {
  std::vector<std::string> missing;
  auto look = std::make_shared<ControlTask>();
  look->only_reads = true;
  look->work = [&](ModelHost& host, Storage&, std::int64_t) {
    const std::vector<ChallengerReport> there = host.report(model).estimates.challengers;
    for (const auto& [name, options] : wanted) {
      if (std::ranges::count(there, name, &ChallengerReport::name) == 0) {
        missing.push_back(name);
      }
    }
  };
  run_on(engine, model, look);
  for (const std::string& name : missing) {
    auto task = std::make_shared<CreateTask>();
    task->challenger.emplace();
    task->challenger->name = name;
    task->challenger->options = wanted.at(name);
    run_on(engine, model, task);
    log_info("a challenger was added as the configuration says",
             {{"model", model}, {"challenger", name}});
  }
}

ModelSource source_of(const std::string& path) {
  std::error_code missing;
  const std::uint64_t bytes = std::filesystem::file_size(path, missing);
  if (missing) {
    throw Error(ErrorKind::kUsage, fmt::format("--import: {}: {}", path, missing.message()));
  }
  ModelSource source;
  source.file = {path, path, bytes, nullptr};
  return source;
}

}  // namespace

void configure_models(Engine& engine, const ServerOptions& options) {
  std::map<std::string, ModelOptions> wanted = options.models;
  if (wanted.empty() && engine.reports().empty() && options.imports.empty()) {
    wanted["default"] = {};
  }
  for (const auto& [name, path] : options.imports) {
    wanted.try_emplace(name);
  }
  for (const auto& [name, configured] : wanted) {
    const auto named = options.named_options.find(name);
    if (const std::optional<ModelOptions> model = engine.options_of(name)) {
      if (named != options.named_options.end()) {
        configure(engine, name, *model, configured, named->second);
      }
      continue;
    }
    auto task = std::make_shared<CreateTask>();
    task->options = configured;
    if (const auto file = options.imports.find(name); file != options.imports.end()) {
      task->source = source_of(file->second);
      task->source->given = named == options.named_options.end() ? OptionValues() : named->second;
    }
    run_on(engine, name, task);
    if (task->source) {
      log_info("a model was made from a file",
               {{"model", name}, {"file", task->source->file.path}});
    }
  }
  for (const auto& [model, challengers] : options.challengers) {
    if (!challengers.empty()) {
      add_challengers(engine, model, challengers);
    }
  }
}

}  // namespace mcnb
