#include "mcnb/serve/engine/model_source.h"

#include <fmt/core.h>

#include <sstream>

#include "mcnb/bandit/saved_policy.h"
#include "mcnb/base/error.h"
#include "mcnb/evaluate/estimate/round_features.h"
#include "mcnb/evaluate/readers/log_reader.h"
#include "mcnb/serve/model/model_state.h"

namespace mcnb {
namespace {

constexpr std::size_t kLargestStart = std::size_t{512} << 20;  // bytes: it is one row of the log

StartedModel started(const ModelOptions& options, std::string state, std::int64_t time,
                     ThreadPool& threads) {
  if (state.size() > kLargestStart) {
    throw Error(ErrorKind::kUsage,
                fmt::format("what was learned takes {} bytes, expected at most {}", state.size(),
                            kLargestStart));
  }
  StartedModel made{std::make_unique<Model>(options, threads), {time, std::move(state)}};
  made.model->apply(made.start, 1);
  return made;
}

// Reads the state to its end, as its owner must.
std::string bytes_to_end(SavedState& state) {
  std::string bytes;
  for (std::string_view piece = state.next(); !piece.empty(); piece = state.next()) {
    bytes += piece;
  }
  return bytes;
}

StartedModel start_from_model(const ModelSource& source, const ModelOptions& options,
                              std::int64_t time, ThreadPool& threads) {
  Model copy(source.options, threads);
  {
    std::istringstream in(bytes_to_end(*source.state));
    load_snapshot(in, "model " + source.model, source.store_id, copy);
  }
  return started(options, copy.start_state(), time, threads);
}

// A message with the file's name in place of its path.
std::string named(std::string message, const StartFile& file) {
  for (std::size_t at = message.find(file.path); at != std::string::npos;
       at = message.find(file.path, at + file.name.size())) {
    message.replace(at, file.path.size(), file.name);
  }
  return message;
}

// What the policy brings, with what the caller names, which must agree with it.
ModelOptions options_with(const SavedPolicy& saved, const ModelSource& source) {
  ModelOptions options;
  options.policy = saved.spec;
  options.dimension = saved.setup.inputs;
  options.seed = saved.setup.seed;
  const auto agree = [&](const char* name, const std::string& has, const std::string& given) {
    if (has != given) {
      refuse_option(name, fmt::format("\"{}\", as the saved policy has it", has), given);
    }
  };
  if (const auto policy = source.given.find("policy"); policy != source.given.end()) {
    agree("policy", saved.spec.name, policy->second);
  }
  for (const auto& [name, text] : source.given) {
    set_option(options, name, text);
  }
  agree("dimension", std::to_string(saved.setup.inputs), std::to_string(options.dimension));
  agree("seed", std::to_string(saved.setup.seed), std::to_string(options.seed));
  const OptionValues own = resolved_options(options.policy);
  for (const auto& [name, text] : resolved_options(saved.spec)) {
    agree(("options." + name).c_str(), text, own.at(name));
  }
  check_model_options(options);
  return options;
}

StartedModel start_from_policy(const ModelSource& source, std::int64_t time, ThreadPool& threads) {
  const SavedPolicy saved = load_saved_policy(source.file.path, threads);
  const ModelOptions options = options_with(saved, source);
  std::vector<std::string> users = saved.memory.users;
  if (users.empty() && saved.policy->user_count() > 1) {  // they have numbers only
    for (std::size_t i = 0; i < saved.policy->user_count(); ++i) {
      users.push_back(std::to_string(i));
    }
  }
  const std::string state = Model(options, threads).start_state_of(*saved.policy, users);
  return started(options, state, time, threads);
}

// Fits that are due run at once.
void tend_fits(Model& model) {
  model.learn_now();
  if (const std::optional<std::string> due = model.due_fit()) {
    model.apply(FitBegin{*due}, model.last_position() + 1);
    const std::shared_ptr<BackgroundFit> fit = model.fit_in_progress();
    fit->run();
    model.apply(FitResult{fit->result(), *due}, model.last_position() + 1);
  }
}

StartedModel start_from_log(const StartFile& file, const ModelOptions& options, std::int64_t time,
                            ThreadPool& threads) {
  constexpr std::uint64_t kLessonsBetweenFits = 64;
  if (!options.interactions) {
    refuse_option("interactions", "yes, because features of logs are taken with their pairs", "no");
  }
  Model model(options, threads);
  RoundFeatures features(static_cast<std::size_t>(options.dimension));
  std::uint64_t number = 0;
  read_log_file(file.path, {}, [&](const LoggedRound& round) {
    ++number;
    if (round.excluded || !round.reward) {
      return;
    }
    const std::span<const float> numbers = features.of(round);
    if (features.dimension() != options.dimension) {
      refuse_option("dimension",
                    fmt::format("{}, as the features of the log have it", features.dimension()),
                    std::to_string(options.dimension));
    }
    const auto chosen = static_cast<std::size_t>(round.chosen);
    std::uint32_t arm = 0;
    for (std::size_t i = 0; i < chosen; ++i) {
      arm += round.is_eligible(i) ? 1 : 0;
    }
    model.learn_logged(round.user.empty() ? kEverybody : round.user, RoundId{number}, arm,
                       numbers.subspan(chosen * features.dimension(), features.dimension()),
                       static_cast<float>(*round.reward));
    if (model.version() % kLessonsBetweenFits == 0) {
      tend_fits(model);
    }
  });
  tend_fits(model);
  if (model.version() == 0) {
    throw Error(ErrorKind::kInput, "expected a log with rewards, found none");
  }
  return started(options, model.start_state(), time, threads);
}

}  // namespace

StartedModel start_model(const ModelSource& source, const ModelOptions& options, std::int64_t time,
                         ThreadPool& threads) {
  if (!source.model.empty()) {
    return start_from_model(source, options, time, threads);
  }
  const StartFile& file = source.file;
  try {
    return is_policy_file(file.path) ? start_from_policy(source, time, threads)
                                     : start_from_log(file, options, time, threads);
  } catch (const Error& error) {
    throw Error(error.kind(), named(error.what(), file));
  }
}

}  // namespace mcnb
