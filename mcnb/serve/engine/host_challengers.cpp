// Challengers: policies that learn beside the one that answers.

#include <fmt/core.h>

#include <algorithm>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/model_host.h"

namespace mcnb {
namespace {

// By which the memory of a challenger that is being made is reserved. No model has such a name.
std::string reservation_of(const std::string& model, const std::string& challenger) {
  return model + "/" + challenger;
}

void check_challenger_name(const std::string& name, const char* field) {
  if (!is_model_name(name)) {
    refuse_request(ErrorCode::kBadName,
                   fmt::format("expected 1 to {} letters, digits, '.', '_' or '-'", kLongestName),
                   field);
  }
}

void check_new_challenger(const Model& model, const std::string& name, const char* field) {
  if (model.has_challenger(name)) {
    refuse_request(ErrorCode::kChallengerExists,
                   fmt::format("there is a challenger \"{}\" already", name), field);
  }
}

void check_count(const Model& model) {
  if (model.challenger_count() >= kMostChallengers) {
    refuse_request(ErrorCode::kTooManyChallengers,
                   fmt::format("the model has {} challengers already", kMostChallengers));
  }
}

void check_challenger(const Model& model, const std::string& name) {
  if (!model.has_challenger(name)) {
    refuse_request(ErrorCode::kUnknownChallenger,
                   fmt::format("there is no challenger \"{}\"", name), "challenger");
  }
}

}  // namespace

NewChallenger ModelHost::plan_challenger(const std::string& model, NewChallenger wanted) {
  const Hosted& hosted = find(model);
  check_challenger_name(wanted.name, "name");
  check_new_challenger(*hosted.model, wanted.name, "name");
  check_count(*hosted.model);
  const std::string reservation = reservation_of(model, wanted.name);
  if (reserved_.contains(reservation)) {
    refuse_request(ErrorCode::kInProgress, "a challenger of this name is being made", "name");
  }
  wanted.model_id = hosted.id;
  wanted.model = hosted.model->options();
  PolicySize size;
  try {
    bound_history(wanted.options.policy);
    size = Model::size_of_challenger(wanted.model, wanted.options, threads_);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kBadOption, error.what());
  }
  const auto learners = static_cast<double>(
      std::max(hosted.model->users().learner_count(), hosted.model->users().first_learners()));
  reserve(reservation, size, size.bytes(learners, 1.0, 1.0), "the challenger");
  return wanted;
}

void ModelHost::adopt_challenger(const std::string& model, NewChallenger challenger,
                                 std::int64_t time) {
  release(reservation_of(model, challenger.name));
  if (!challenger.made) {
    return;
  }
  Hosted& hosted = find(model);
  if (hosted.id != challenger.model_id) {
    refuse_request(ErrorCode::kModelChanged,
                   "the model was removed and made again: send the request again");
  }
  check_new_challenger(*hosted.model, challenger.name, "name");
  check_count(*hosted.model);
  hosted.model->lend_policy(std::move(challenger.made));
  log(hosted, ChallengerBegin{time, challenger.name, option_values(challenger.options)}, time);
  memory_.measure(hosted.id, static_cast<double>(hosted.model->memory_bytes()));
}

void ModelHost::remove_challenger(const std::string& model, const std::string& name,
                                  std::int64_t time) {
  Hosted& hosted = find(model);
  check_challenger(*hosted.model, name);
  log(hosted, ChallengerEnd{time, name}, time);
}

void ModelHost::promote(const std::string& model, const std::string& name,
                        const std::string& keep_as, std::int64_t time) {
  Hosted& hosted = find(model);
  check_challenger(*hosted.model, name);
  if (!keep_as.empty()) {
    check_challenger_name(keep_as, "keepAs");
    if (keep_as != name) {
      check_new_challenger(*hosted.model, keep_as, "keepAs");
    }
  }
  log(hosted, Promotion{time, name, keep_as}, time);
  hosted.pace = 1.0;  // was that of other policies
}

}  // namespace mcnb
