// Fits of the policies' priors to all rewards, beside the requests.

#include "mcnb/serve/engine/model_host.h"

namespace mcnb {
namespace {

// Of the seconds that a fit takes: replay computes only what follows from its result.
constexpr double kReplayedShareOfFit = 0.25;

}  // namespace

ModelHost::Hosted* ModelHost::owner_of(const BackgroundFit& fit) {
  for (auto& [name, hosted] : models_) {
    if (hosted.model->fit_in_progress().get() == &fit) {
      return &hosted;
    }
  }
  return nullptr;
}

std::shared_ptr<BackgroundFit> ModelHost::next_fit(std::int64_t time) {
  // The models take turns.
  auto next = models_.upper_bound(last_fitted_);
  for (std::size_t i = 0; i < models_.size(); ++i, ++next) {
    next = next == models_.end() ? models_.begin() : next;
    Hosted& hosted = next->second;
    if (is_busy(hosted.name)) {
      continue;
    }
    if (hosted.model->fit_is_due()) {
      log(hosted, FitBegin{}, time);
    }
    if (std::shared_ptr<BackgroundFit> fit = hosted.model->fit_in_progress()) {
      last_fitted_ = hosted.name;
      return fit;
    }
  }
  return nullptr;
}

bool ModelHost::finish_fit(const BackgroundFit& fit, const std::string& result, double seconds,
                           std::int64_t time) {
  Hosted* const owner = owner_of(fit);
  if (owner == nullptr) {
    return false;
  }
  log(*owner, FitResult{result}, time);
  owner->seconds_since_snapshot += kReplayedShareOfFit * seconds;
  return true;
}

}  // namespace mcnb
