#include "mcnb/serve/model/events.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/option_codec.h"
#include "mcnb/serve/model/bytes.h"

namespace mcnb {
namespace {

constexpr std::size_t kLongestPartName = 64;
constexpr std::size_t kLongestFeatures = std::size_t{1} << 20;   // bytes of JSON
constexpr std::size_t kLargestFitResult = std::size_t{1} << 30;  // bytes

// Bits of the flags of a decision.
constexpr std::uint8_t kDeferred = 1;
constexpr std::uint8_t kNamedParts = 2;
constexpr std::uint8_t kEstimatedSizes = 4;
constexpr std::uint8_t kOriginal = 16;
constexpr std::uint8_t kAllFlags = kDeferred | kNamedParts | kEstimatedSizes | kOriginal;

// The parts of a decision that does not name them: those of MCNB, and those that every policy
// reported before parts had names.
const std::vector<std::string> kUnnamedParts{"meta", "user"};

void put(ByteWriter& out, const Arrival& event) { out.put(event.user); }

Arrival get_arrival(ByteReader& in) { return {.user = in.get<std::uint64_t>()}; }

void put(ByteWriter& out, const Decision& event) {
  out.write_string(event.event_id);
  out.write_string(event.user_id);
  out.put(event.time);
  out.put(event.model_version);
  out.put(static_cast<std::uint8_t>(event.mode));
  const bool named = event.part_names != kUnnamedParts;
  out.put(static_cast<std::uint8_t>((event.deferred ? kDeferred : 0) | (named ? kNamedParts : 0) |
                                    (event.estimated_sizes ? kEstimatedSizes : 0) |
                                    (event.original ? kOriginal : 0)));
  out.put(event.chosen);
  out.put(event.preferred);
  out.put(event.arm);
  if (named) {
    out.put(static_cast<std::uint32_t>(event.part_names.size()));
    for (const std::string& name : event.part_names) {
      out.write_string(name);
    }
  }
  out.put(static_cast<std::uint32_t>(event.actions.size()));
  for (const LoggedAction& action : event.actions) {
    out.write_string(action.id);
    out.put(action.probability);
    out.put(action.value);
    out.put(action.estimate);
    for (std::size_t part = 0; part < event.part_names.size(); ++part) {
      out.put(action.parts[part]);
    }
    out.put(action.cluster_size);
    if (event.estimated_sizes) {
      out.put(action.cluster_found);
      out.put(action.cluster_visited);
    }
    out.put(static_cast<std::uint8_t>(action.eligible));
  }
  out.put_all(std::span(event.ranking));
  out.put_all(std::span(event.features));
  if (event.original) {
    out.write_string(event.original->context);
    for (const std::string& features : event.original->actions) {
      out.write_string(features);
    }
  }
}

bool is_permutation(const std::vector<std::uint32_t>& ranking, std::size_t count) {
  std::vector<bool> seen(count);
  for (const std::uint32_t index : ranking) {
    if (index >= count || seen[index]) {
      return false;
    }
    seen[index] = true;
  }
  return ranking.size() == count;
}

std::vector<std::string> get_part_names(ByteReader& in) {
  const auto count = in.get<std::uint32_t>();
  if (count > Score::kMostParts) {
    in.fail("a score has more parts than it can have");
  }
  std::vector<std::string> names(count);
  for (std::string& name : names) {
    name = in.read_string(kLongestPartName);
  }
  if (names == kUnnamedParts) {
    in.fail("a decision names the parts that need no names");
  }
  return names;
}

Decision get_decision(ByteReader& in, std::size_t dimension) {
  Decision event;
  event.event_id = in.read_string(kLongestId);
  event.user_id = in.read_string(kLongestId);
  event.time = in.get<std::int64_t>();
  event.model_version = in.get<std::uint64_t>();
  const auto mode = in.get<std::uint8_t>();
  const auto flags = in.get<std::uint8_t>();
  event.chosen = in.get<std::uint32_t>();
  event.preferred = in.get<std::uint32_t>();
  event.arm = in.get<std::uint32_t>();
  event.part_names = (flags & kNamedParts) != 0 ? get_part_names(in) : kUnnamedParts;
  const auto count = in.get<std::uint32_t>();
  if (mode > static_cast<std::uint8_t>(ModelMode::kLogging) || (flags & ~kAllFlags) != 0 || count == 0 ||
      count > kMostActions || event.chosen >= count || event.preferred >= count ||
      event.arm > event.chosen || event.event_id.empty()) {
    in.fail("not a decision");
  }
  event.mode = static_cast<ModelMode>(mode);
  event.deferred = (flags & kDeferred) != 0;
  event.estimated_sizes = (flags & kEstimatedSizes) != 0;
  event.actions.resize(count);
  for (LoggedAction& action : event.actions) {
    action.id = in.read_string(kLongestId);
    action.probability = in.get<float>();
    action.value = in.get<float>();
    action.estimate = in.get<float>();
    for (std::size_t part = 0; part < event.part_names.size(); ++part) {
      action.parts[part] = in.get<float>();
    }
    action.cluster_size = in.get<std::uint32_t>();
    if (event.estimated_sizes) {
      action.cluster_found = in.get<std::uint32_t>();
      action.cluster_visited = in.get<std::uint32_t>();
    }
    const auto eligible = in.get<std::uint8_t>();
    action.eligible = eligible == 1;
    if (eligible > 1) {
      in.fail("an action is neither eligible nor excluded");
    }
    if (!(action.probability >= 0.0F && action.probability <= 1.0F)) {
      in.fail("a probability outside [0, 1]");
    }
  }
  event.ranking = in.get_all<std::uint32_t>(count);
  event.features = in.get_all<float>(count * dimension);
  if ((flags & kOriginal) != 0) {
    event.original.emplace().context = in.read_string(kLongestFeatures);
    for (std::uint32_t i = 0; i < count; ++i) {
      event.original->actions.push_back(in.read_string(kLongestFeatures));
    }
  }
  if (!is_permutation(event.ranking, count) || event.features.size() != count * dimension ||
      !event.actions[event.chosen].eligible ||
      !std::ranges::all_of(event.features, [](float x) { return std::isfinite(x); })) {
    in.fail("the parts of a decision do not fit together");
  }
  return event;
}

void put(ByteWriter& out, const Reward& event) {
  out.write_string(event.event_id);
  out.write_string(event.reward_id);
  out.put(event.time);
  out.put(event.value);
}

Reward get_reward(ByteReader& in) {
  Reward event;
  event.event_id = in.read_string(kLongestId);
  event.reward_id = in.read_string(kLongestId);
  event.time = in.get<std::int64_t>();
  event.value = in.get<float>();
  if (!(event.value >= 0.0F && event.value <= 1.0F)) {
    in.fail("a reward outside [0, 1]");
  }
  return event;
}

void put(ByteWriter& out, const Activation& event) {
  out.write_string(event.event_id);
  out.put(event.time);
}

Activation get_activation(ByteReader& in) {
  Activation event;
  event.event_id = in.read_string(kLongestId);
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
  write_options(out, event.settings);
}

SettingsChange get_settings_change(ByteReader& in) {
  SettingsChange event;
  event.time = in.get<std::int64_t>();
  event.settings = read_options(in);
  ModelOptions tried;
  for (const auto& [name, text] : event.settings) {
    try {
      change_setting(tried, name, text);
    } catch (const Error& error) {
      in.fail(error.what());
    }
  }
  return event;
}

void put(ByteWriter&, const FitBegin&) {}

void put(ByteWriter& out, const FitResult& event) { out.write_string(event.result); }

FitResult get_fit_result(ByteReader& in) { return {.result = in.read_string(kLargestFitResult)}; }

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
    case EventKind::kFitBegin:
      event = FitBegin{};
      break;
    case EventKind::kFitResult:
      event = get_fit_result(in);
      break;
    default:
      in.fail("an unknown kind of event");
  }
  in.finish();
  return event;
}

}  // namespace mcnb
