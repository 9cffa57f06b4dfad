// The saved state of a model (docs/FORMATS.md).

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/base/option_codec.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {
namespace {

constexpr std::uint32_t kWithChallengers = 3;  // version of the layout that has them

OptionValues policy_values(const PolicySpec& policy) {
  ChallengerOptions options;
  options.policy = policy;
  return option_values(options);
}

ChallengerOptions read_challenger_options(StateReader& reader) {
  try {
    return challenger_options(read_options(reader));
  } catch (const Error& error) {
    reader.fail(error.what());
  }
}

}  // namespace

void Model::save(StateWriter& writer) {
  learn_now();
  ModelOptions made = options_;
  made.policy = first_policy_;
  write_options(writer, option_values(made));
  write_options(writer, policy_values(options_.policy));
  writer.write(last_position_);
  writer.write(last_time_);
  writer.write(counts_);
  writer.write_all(learners_);
  users_.save(writer);
  waiting_.save(writer);
  save_challengers(writer);
  policy_->save(writer);
  for (const Challenger& challenger : challengers_) {
    challenger.policy->save(writer);
  }
}

void Model::load(StateReader& reader) {
  load_options(reader);
  if (reader.version() >= kWithChallengers) {
    load_policy(reader);
  }
  last_position_ = reader.read<std::uint64_t>();
  last_time_ = reader.read<std::int64_t>();
  counts_ = reader.read<ModelCounts>();
  learners_ = reader.read_all<LearnerCounts>(0xffffffffU);
  users_.load(reader);
  waiting_.load(reader, static_cast<std::size_t>(options_.dimension), learners_.size(),
                reader.version() >= kWithChallengers);
  challengers_.clear();
  if (reader.version() >= kWithChallengers) {
    load_challengers(reader);
  }
  policy_->load(reader);
  bool fits = policy_->user_count() == learners_.size();
  for (const Challenger& challenger : challengers_) {
    challenger.policy->load(reader);
    fits = fits && challenger.policy->user_count() == learners_.size();
  }
  if (!fits || users_.learner_count() > learners_.size()) {
    reader.fail("the users do not fit the policy");
  }
  lessons_.clear();
}

void Model::load_options(StateReader& reader) {
  ModelOptions made = options_;
  made.policy = first_policy_;
  const OptionValues expected = option_values(made);
  OptionValues saved = read_options(reader);
  complete_option_values(saved);
  for (const auto& [name, text] : saved) {
    const auto found = expected.find(name);
    try {
      if (is_setting(name)) {
        change_setting(options_, name, text);
      } else if (found == expected.end() || found->second != text) {
        reader.fail(fmt::format("it was saved with {} = \"{}\"", name, text));
      }
    } catch (const Error& error) {
      reader.fail(error.what());
    }
  }
}

// The policy that answered when the state was saved: a challenger may have been promoted.
void Model::load_policy(StateReader& reader) {
  const ChallengerOptions present = read_challenger_options(reader);
  if (policy_values(present.policy) == policy_values(options_.policy)) {
    return;
  }
  try {
    size_ = size_of_challenger(options_, present, threads_);
    policy_ = make_challenger(options_, present, threads_);
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  options_.policy = present.policy;
}

void Model::save_challengers(StateWriter& writer) const {
  outcomes_.save(writer);
  writer.write(champion_since_);
  for (const RunningValue* estimate : {&champion_, &random_, &first_}) {
    estimate->save(writer);
  }
  writer.write_count(challengers_.size());
  for (const Challenger& challenger : challengers_) {
    writer.write_string(challenger.name);
    write_options(writer, option_values(challenger.options));
    writer.write(challenger.slot);
    writer.write(challenger.since);
    writer.write(challenger.learned);
    writer.write(challenger.refused);
    challenger.estimate.save(writer);
    challenger.champion.save(writer);
  }
}

void Model::load_challengers(StateReader& reader) {
  outcomes_.load(reader);
  champion_since_ = reader.read<std::uint64_t>();
  for (RunningValue* estimate : {&champion_, &random_, &first_}) {
    estimate->load(reader);
  }
  const std::uint64_t count = reader.read_count(kMostChallengers);
  for (std::uint64_t i = 0; i < count; ++i) {
    Challenger challenger;
    challenger.name = reader.read_string(kLongestName);
    challenger.options = read_challenger_options(reader);
    challenger.slot = reader.read<std::uint32_t>();
    challenger.since = reader.read<std::uint64_t>();
    challenger.learned = reader.read<std::uint64_t>();
    challenger.refused = reader.read<std::uint64_t>();
    challenger.estimate.load(reader);
    challenger.champion.load(reader);
    if (!is_model_name(challenger.name) || has_challenger(challenger.name) ||
        challenger.slot >= kMostChallengers ||
        std::ranges::count(challengers_, challenger.slot, &Challenger::slot) > 0) {
      reader.fail("a challenger has impossible values");
    }
    try {
      challenger.size = size_of_challenger(options_, challenger.options, threads_);
      challenger.policy = make_challenger(options_, challenger.options, threads_);
    } catch (const Error& error) {
      reader.fail(error.what());
    }
    challengers_.push_back(std::move(challenger));
  }
}

}  // namespace mcnb
