#include "mcnb/serve/model/events.h"

#include <algorithm>
#include <cmath>

#include "mcnb/serve/model/bytes.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostSettings = 64;
constexpr std::size_t kLongestSetting = 256;

void put(ByteWriter& out, const Arrival& event) { out.put(event.user); }

Arrival get_arrival(ByteReader& in) { return {.user = in.get<std::uint64_t>()}; }

void put(ByteWriter& out, const Decision& event) {
  out.put_text(event.event_id);
  out.put_text(event.user_id);
  out.put(event.time);
  out.put(event.model_version);
  out.put(static_cast<std::uint8_t>(event.mode));
  out.put(static_cast<std::uint8_t>(event.deferred));
  out.put(event.chosen);
  out.put(event.preferred);
  out.put(event.arm);
  out.put(static_cast<std::uint32_t>(event.actions.size()));
  for (const LoggedAction& action : event.actions) {
    out.put_text(action.id);
    out.put(action.probability);
    out.put(action.value);
    out.put(action.estimate);
    out.put(action.meta_bonus);
    out.put(action.user_bonus);
    out.put(action.cluster_size);
    out.put(static_cast<std::uint8_t>(action.eligible));
  }
  out.put_all(std::span(event.ranking));
  out.put_all(std::span(event.features));
}

bool is_permutation_of_places(const std::vector<std::uint32_t>& ranking, std::size_t count) {
  std::vector<bool> seen(count);
  for (const std::uint32_t place : ranking) {
    if (place >= count || seen[place]) {
      return false;
    }
    seen[place] = true;
  }
  return ranking.size() == count;
}

Decision get_decision(ByteReader& in, std::size_t dimension) {
  Decision event;
  event.event_id = in.get_text(kLongestId);
  event.user_id = in.get_text(kLongestId);
  event.time = in.get<std::int64_t>();
  event.model_version = in.get<std::uint64_t>();
  const auto mode = in.get<std::uint8_t>();
  const auto deferred = in.get<std::uint8_t>();
  event.chosen = in.get<std::uint32_t>();
  event.preferred = in.get<std::uint32_t>();
  event.arm = in.get<std::uint32_t>();
  const auto count = in.get<std::uint32_t>();
  if (mode > static_cast<std::uint8_t>(ModelMode::kLogging) || deferred > 1 || count == 0 ||
      count > kMostActions || event.chosen >= count || event.preferred >= count ||
      event.arm > event.chosen || event.event_id.empty()) {
    in.fail("not a decision");
  }
  event.mode = static_cast<ModelMode>(mode);
  event.deferred = deferred == 1;
  event.actions.resize(count);
  for (LoggedAction& action : event.actions) {
    action.id = in.get_text(kLongestId);
    action.probability = in.get<float>();
    action.value = in.get<float>();
    action.estimate = in.get<float>();
    action.meta_bonus = in.get<float>();
    action.user_bonus = in.get<float>();
    action.cluster_size = in.get<std::uint32_t>();
    const auto eligible = in.get<std::uint8_t>();
    action.eligible = eligible == 1;
    if (eligible > 1) {
      in.fail("neither excluded nor not");
    }
    if (!(action.probability >= 0.0F && action.probability <= 1.0F)) {
      in.fail("a probability outside [0, 1]");
    }
  }
  event.ranking = in.get_all<std::uint32_t>(count);
  event.features = in.get_all<float>(count * dimension);
  if (!is_permutation_of_places(event.ranking, count) ||
      event.features.size() != count * dimension || !event.actions[event.chosen].eligible ||
      !std::ranges::all_of(event.features, [](float x) { return std::isfinite(x); })) {
    in.fail("the parts of a decision do not fit together");
  }
  return event;
}

void put(ByteWriter& out, const Reward& event) {
  out.put_text(event.event_id);
  out.put_text(event.reward_id);
  out.put(event.time);
  out.put(event.value);
}

Reward get_reward(ByteReader& in) {
  Reward event;
  event.event_id = in.get_text(kLongestId);
  event.reward_id = in.get_text(kLongestId);
  event.time = in.get<std::int64_t>();
  event.value = in.get<float>();
  if (!(event.value >= 0.0F && event.value <= 1.0F)) {
    in.fail("a reward outside [0, 1]");
  }
  return event;
}

void put(ByteWriter& out, const Activation& event) {
  out.put_text(event.event_id);
  out.put(event.time);
}

Activation get_activation(ByteReader& in) {
  Activation event;
  event.event_id = in.get_text(kLongestId);
  event.time = in.get<std::int64_t>();
  return event;
}

void put(ByteWriter& out, const Expiry& event) {
  out.put(event.time);
  out.put(event.count);
}

Expiry get_expiry(ByteReader& in) {
  const auto time = in.get<std::int64_t>();
  return {.time = time, .count = in.get<std::uint32_t>()};
}

void put(ByteWriter& out, const Forgetting& event) {
  out.put(event.user);
  out.put(event.time);
}

Forgetting get_forgetting(ByteReader& in) {
  const auto user = in.get<std::uint64_t>();
  return {.user = user, .time = in.get<std::int64_t>()};
}

void put(ByteWriter& out, const SettingsChange& event) {
  out.put(event.time);
  out.put(static_cast<std::uint32_t>(event.settings.size()));
  for (const auto& [name, text] : event.settings) {
    out.put_text(name);
    out.put_text(text);
  }
}

SettingsChange get_settings_change(ByteReader& in) {
  SettingsChange event;
  event.time = in.get<std::int64_t>();
  const auto count = in.get<std::uint32_t>();
  if (count > kMostSettings) {
    in.fail("more settings than there are");
  }
  ModelOptions tried;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = in.get_text(kLongestSetting);
    const std::string text = in.get_text(kLongestSetting);
    try {
      change_setting(tried, name, text);
    } catch (const Error& error) {
      in.fail(error.what());
    }
    event.settings[name] = text;
  }
  return event;
}

}  // namespace

EventKind kind_of(const Event& event) { return static_cast<EventKind>(event.index() + 1); }

std::string encode_event(const Event& event) {
  ByteWriter out;
  std::visit([&](const auto& one) { put(out, one); }, event);
  return out.take();
}

Event decode_event(EventKind kind, std::string_view bytes, std::size_t dimension,
                   std::string_view what) {
  ByteReader in(bytes, what);
  Event event;
  switch (kind) {
    case EventKind::kArrival:
      event = get_arrival(in);
      break;
    case EventKind::kDecision:
      event = get_decision(in, dimension);
      break;
    case EventKind::kReward:
      event = get_reward(in);
      break;
    case EventKind::kActivation:
      event = get_activation(in);
      break;
    case EventKind::kExpiry:
      event = get_expiry(in);
      break;
    case EventKind::kForgetting:
      event = get_forgetting(in);
      break;
    case EventKind::kSettingsChange:
      event = get_settings_change(in);
      break;
    default:
      in.fail("an unknown kind of event");
  }
  in.finish();
  return event;
}

}  // namespace mcnb
