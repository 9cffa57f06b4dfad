// Decisions that are computed in parts, between which others pass.

#include <algorithm>
#include <cmath>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/model_host.h"

namespace mcnb {
namespace {

// Estimates follow what is measured, within bounds and slowly: a single time says little.
constexpr double kPaceMemory = 0.8;
constexpr double kSlowest = 50.0;
constexpr double kFastest = 0.02;

}  // namespace

double ModelHost::seconds_per_action(const Hosted& hosted) const {
  return hosted.pace * hosted.model->seconds_of_arm();
}

void ModelHost::note_pace(const std::string& model, std::size_t actions, double seconds) {
  const auto found = models_.find(model);
  if (found == models_.end() || actions == 0 || !(seconds > 0.0)) {
    return;
  }
  Hosted& hosted = found->second;
  const double estimated = static_cast<double>(actions) * hosted.model->seconds_of_arm();
  const double pace = std::clamp(seconds / estimated, kFastest, kSlowest);
  hosted.pace = kPaceMemory * hosted.pace + (1.0 - kPaceMemory) * pace;
}

bool ModelHost::can_decide(const std::string& model, const std::string& user_id) {
  const auto found = models_.find(model);
  return !is_busy(model) || found == models_.end() || !found->second.model->needs_arrival(user_id);
}

std::optional<ModelHost::Decided> ModelHost::begin_large(const std::string& model,
                                                         const RankRequest& request,
                                                         std::int64_t time) {
  const auto found = models_.find(model);
  if (found == models_.end() || found->second.model->arms_apart() == 0 ||
      found->second.model->options().mode == ModelMode::kLogging) {
    return std::move(decide(model, {&request}, time).front());
  }
  Hosted& hosted = found->second;
  drop_committed_ids(hosted);
  if (auto answer = answer_at_once(hosted, request, time)) {
    return answer;
  }
  if (auto refusal = admit(hosted, request, time)) {
    return Decided{std::nullopt, std::move(*refusal)};
  }
  large_.emplace(Large{model, request, {}, seconds_per_action(hosted)});
  large_->parted = hosted.model->begin_parts(large_->request);
  return std::nullopt;
}

std::optional<ModelHost::Decided> ModelHost::advance_large(
    double seconds, std::int64_t time, const std::function<double()>& processor_seconds) {
  Hosted& hosted = find(large_->model);
  const std::size_t apart = hosted.model->arms_apart();
  const double arms = seconds / std::max(large_->seconds_per_arm, 1e-9);
  const std::size_t parts =
      static_cast<std::size_t>(std::clamp(arms / static_cast<double>(apart), 1.0, 1e6));
  Decided decided;
  try {
    const double begin = processor_seconds();
    const std::size_t before = large_->parted.scores.size();
    const bool whole = hosted.model->score_part(large_->parted, parts * apart);
    note_pace(large_->model, large_->parted.scores.size() - before, processor_seconds() - begin);
    large_->seconds_per_arm = seconds_per_action(hosted);
    if (!whole) {
      return std::nullopt;
    }
    decided.decision = hosted.model->finish_parts(large_->parted, large_->request, time);
  } catch (const Error& error) {
    decided.error = ServiceError{ErrorCode::kModelDiverged, error.what()};
  }
  large_.reset();
  if (decided.decision) {
    log(hosted, *decided.decision, decided.decision->time,
        hosted.model->user_key(decided.decision->user_id),
        hosted.model->event_key(decided.decision->event_id));
  }
  return decided;
}

}  // namespace mcnb
