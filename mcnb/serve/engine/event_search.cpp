#include "mcnb/serve/engine/event_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "mcnb/serve/model/event_keys.h"

namespace mcnb {
namespace {

// Rows with many actions are large: a search ends after so many bytes of them.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Event decoded(const LogRow& row, const LogView& view) {
  return decode_event(row.kind, row.body, view.dimension,
                      fmt::format("model {}, log row {}", row.model, row.position));
}

// Whether two vectors have the same direction: policies may store features scaled.
bool same_direction(std::span<const float> a, std::span<const float> b) {
  constexpr double kSame = 1.0 - 1e-5;
  double product = 0.0;
  double squares_a = 0.0;
  double squares_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = i < b.size() ? b[i] : 0.0;
    product += x * y;
    squares_a += x * x;
    squares_b += y * y;
  }
  return product >= kSame * std::sqrt(squares_a * squares_b);
}

// Visits the latest rows, the last first, until `visit` returns false.
void look_back(LogStore& log, const LogView& view, std::uint64_t rows,
               const std::function<bool(const LogRow& row)>& visit) {
  const std::uint64_t end = view.last_position > rows ? view.last_position - rows : 0;
  std::size_t bytes = 0;
  for (std::uint64_t position = view.last_position; position > end && bytes < kMostBytes;
       --position) {
    const std::optional<LogRow> row = log.read(view.model, position);
    if (row && !visit(*row)) {
      return;
    }
    bytes += row ? row->body.size() : 0;
  }
}

}  // namespace

std::vector<FoundEvent> latest_events(LogStore& log, const LogView& view, std::size_t most,
                                      std::uint64_t rows) {
  std::vector<FoundEvent> found;
  std::map<std::string, FoundEvent> followed;  // what came of decisions not met yet
  look_back(log, view, rows, [&](const LogRow& row) {
    if (view.user != 0 && row.user != view.user) {
      return true;
    }
    const Event event = decoded(row, view);
    if (const auto* reward = std::get_if<Reward>(&event)) {
      followed[reward->event_id].rewards.push_back(*reward);
    } else if (const auto* activation = std::get_if<Activation>(&event)) {
      followed[activation->event_id].activated = true;
    } else if (const auto* decision = std::get_if<Decision>(&event)) {
      FoundEvent& one = found.emplace_back(std::move(followed[decision->event_id]));
      followed.erase(decision->event_id);
      std::ranges::reverse(one.rewards);
      one.decision = *decision;
    }
    return found.size() < most;
  });
  return found;
}

void follow_events(LogStore& log, const LogView& view, std::uint64_t position, std::uint64_t rows,
                   std::vector<FoundEvent>& slots) {
  std::map<std::string, FoundEvent*> by_id;
  for (FoundEvent& slot : slots) {
    by_id.emplace(slot.decision.event_id, &slot);
  }
  const auto find = [&](const std::string& event_id) {
    const auto found = by_id.find(event_id);
    return found == by_id.end() ? nullptr : found->second;
  };
  const std::uint64_t end = std::min(view.last_position, position + rows);
  std::size_t bytes = 0;
  while (position < end && bytes < kMostBytes) {
    const std::optional<LogRow> row = log.read(view.model, ++position);
    bytes += row ? row->body.size() : 0;
    if (!row || row->user != view.user) {
      continue;
    }
    const Event event = decoded(*row, view);
    const auto* const reward = std::get_if<Reward>(&event);
    const auto* const activation = std::get_if<Activation>(&event);
    if (FoundEvent* const slot = reward == nullptr ? nullptr : find(reward->event_id)) {
      slot->rewards.push_back(*reward);
    } else if (FoundEvent* const other =
                   activation == nullptr ? nullptr : find(activation->event_id)) {
      other->activated = true;
    }
  }
}

std::vector<RecentArm> recent_arms(LogStore& log, const LogView& view, std::size_t most,
                                   std::uint64_t rows) {
  std::vector<RecentArm> arms;
  std::set<std::string> ids;
  look_back(log, view, rows, [&](const LogRow& row) {
    if (row.kind == EventKind::kDecision) {
      const auto decision = std::get<Decision>(decoded(row, view));
      const std::string& id = decision.actions[decision.chosen].id;
      if (ids.insert(id).second) {
        const auto features =
            std::span(decision.features).subspan(decision.chosen * view.dimension, view.dimension);
        arms.push_back({id, {features.begin(), features.end()}});
      }
    }
    return arms.size() < most;
  });
  return arms;
}

LookNames names_of_look(LogStore& log, const LogView& view, std::span<const std::uint64_t> members,
                        std::span<const CloserLook::MovingSample> samples, std::uint64_t rows) {
  LookNames names{std::vector<std::string>(members.size()),
                  std::vector<SampleSource>(samples.size())};
  std::map<std::uint64_t, std::string*> by_hash;
  for (std::size_t i = 0; i < members.size(); ++i) {
    by_hash.emplace(members[i], &names.members[i]);
  }
  look_back(log, view, rows, [&](const LogRow& row) {
    const auto member = by_hash.find(row.user);
    if (row.kind != EventKind::kDecision || (member == by_hash.end() && !by_hash.empty())) {
      return true;
    }
    const auto decision = std::get<Decision>(decoded(row, view));
    if (member != by_hash.end()) {
      *member->second = decision.user_id;
    }
    const auto features =
        std::span(decision.features).subspan(decision.chosen * view.dimension, view.dimension);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (names.samples[i].event_id.empty() && same_direction(features, samples[i].features)) {
        names.samples[i] = {std::string(event_of_slot(decision.event_id)), decision.user_id,
                            decision.actions[decision.chosen].id};
      }
    }
    return true;
  });
  return names;
}

}  // namespace mcnb
