#include "mcnb/serve/model/events.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/option_codec.h"
#include "mcnb/serve/model/bytes.h"
#include "mcnb/serve/model/challengers.h"

namespace mcnb {
namespace {

constexpr std::size_t kLongestPartName = 64;
constexpr std::size_t kLongestFeatures = std::size_t{1} << 20;   // bytes of JSON
constexpr std::size_t kLargestFitResult = std::size_t{1} << 30;  // bytes

// Bits of the flags of a decision.
constexpr std::uint8_t kDeferred = 1;
constexpr std::uint8_t kNamedParts = 2;
constexpr std::uint8_t kEstimatedSizes = 4;
constexpr std::uint8_t kChallenged = 8;
constexpr std::uint8_t kSlotted = 16;
constexpr std::uint8_t kKeepsFeatures = 32;
constexpr std::uint8_t kAllFlags =
    kDeferred | kNamedParts | kEstimatedSizes | kChallenged | kSlotted | kKeepsFeatures;

// The parts of a decision that does not name them: those of MCNB, and those that every policy
// reported before parts had names.
const std::vector<std::string> kUnnamedParts{"meta", "user"};

void put(ByteWriter& out, const Arrival& event) { out.put(event.user); }

Arrival get_arrival(ByteReader& in) { return {.user = in.get<std::uint64_t>()}; }

std::uint8_t flags_of(const Decision& event) {
  const auto bit = [](bool set, std::uint8_t flag) { return set ? flag : std::uint8_t{0}; };
  return static_cast<std::uint8_t>(
      bit(event.deferred, kDeferred) | bit(event.part_names != kUnnamedParts, kNamedParts) |
      bit(event.estimated_sizes, kEstimatedSizes) | bit(!event.challenged.empty(), kChallenged) |
      bit(!event.slot.ids.empty(), kSlotted) | bit(event.kept.has_value(), kKeepsFeatures));
}

// What only some decisions have.
void put_rest(ByteWriter& out, const Decision& event) {
  if (!event.challenged.empty()) {
    out.put_all(std::span(event.challenged));
  }
  if (!event.slot.ids.empty()) {
    out.put(event.slot.index);
    out.put(static_cast<std::uint32_t>(event.slot.ids.size()));
    for (const std::string& id : event.slot.ids) {
      out.write_string(id);
    }
  }
  if (event.kept) {
    out.write_string(event.kept->context);
    out.write_string(event.kept->slot);
    for (const std::string& features : event.kept->actions) {
      out.write_string(features);
    }
  }
}

void put(ByteWriter& out, const Decision& event) {
  out.write_string(event.event_id);
  out.write_string(event.user_id);
  out.put(event.time);
  out.put(event.model_version);
  out.put(static_cast<std::uint8_t>(event.mode));
  const std::uint8_t flags = flags_of(event);
  out.put(flags);
  out.put(event.chosen);
  out.put(event.preferred);
  out.put(event.arm);
  if ((flags & kNamedParts) != 0) {
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
  put_rest(out, event);
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

SlotOfEvent get_slot(ByteReader& in) {
  SlotOfEvent slot;
  slot.index = in.get<std::uint32_t>();
  const auto count = in.get<std::uint32_t>();
  if (count == 0 || count > kMostSlots || slot.index >= count) {
    in.fail("a slot that its event cannot have");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    slot.ids.push_back(in.read_string(kLongestId));
  }
  return slot;
}

CallerFeatures get_kept(ByteReader& in, std::size_t actions) {
  CallerFeatures kept;
  kept.context = in.read_string(kLongestFeatures);
  kept.slot = in.read_string(kLongestFeatures);
  for (std::size_t i = 0; i < actions; ++i) {
    kept.actions.push_back(in.read_string(kLongestFeatures));
  }
  return kept;
}

LoggedAction get_action(ByteReader& in, const Decision& event) {
  LoggedAction action;
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
  return action;
}

// What each challenger would have chosen.
std::vector<std::uint32_t> get_challenged(ByteReader& in, const Decision& event) {
  std::vector<std::uint32_t> challenged = in.get_all<std::uint32_t>(kMostChallengers);
  if (challenged.empty() || !std::ranges::all_of(challenged, [&](std::uint32_t index) {
        return index < event.actions.size() && event.actions[index].eligible;
      })) {
    in.fail("not what challengers can choose");
  }
  return challenged;
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
  if (mode > static_cast<std::uint8_t>(ModelMode::kLogging) || flags > kAllFlags || count == 0 ||
      count > kMostActions || event.chosen >= count || event.preferred >= count ||
      event.arm > event.chosen || event.event_id.empty()) {
    in.fail("not a decision");
  }
  event.mode = static_cast<ModelMode>(mode);
  event.deferred = (flags & kDeferred) != 0;
  event.estimated_sizes = (flags & kEstimatedSizes) != 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    event.actions.push_back(get_action(in, event));
  }
  event.ranking = in.get_all<std::uint32_t>(count);
  event.features = in.get_all<float>(count * dimension);
  if ((flags & kChallenged) != 0) {
    event.challenged = get_challenged(in, event);
  }
  if ((flags & kSlotted) != 0) {
    event.slot = get_slot(in);
  }
  if ((flags & kKeepsFeatures) != 0) {
    event.kept = get_kept(in, count);
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

std::string get_name(ByteReader& in) {
  std::string name = in.read_string(kLongestName);
  if (!is_model_name(name)) {
    in.fail("a challenger has no possible name");
  }
  return name;
}

// Events of the model's own policy do not name it, as they did before there were challengers.
void put_challenger(ByteWriter& out, const std::string& name) {
  if (!name.empty()) {
    out.write_string(name);
  }
}

std::string get_challenger(ByteReader& in) { return in.at_end() ? std::string() : get_name(in); }

void put(ByteWriter& out, const FitBegin& event) { put_challenger(out, event.challenger); }

FitBegin get_fit_begin(ByteReader& in) { return {.challenger = get_challenger(in)}; }

void put(ByteWriter& out, const FitResult& event) {
  out.write_string(event.result);
  put_challenger(out, event.challenger);
}

FitResult get_fit_result(ByteReader& in) {
  std::string result = in.read_string(kLargestFitResult);
  return {.result = std::move(result), .challenger = get_challenger(in)};
}

void put(ByteWriter& out, const ChallengerBegin& event) {
  out.put(event.time);
  out.write_string(event.name);
  write_options(out, event.options);
}

ChallengerBegin get_challenger_begin(ByteReader& in) {
  ChallengerBegin event;
  event.time = in.get<std::int64_t>();
  event.name = get_name(in);
  event.options = read_options(in);
  try {
    challenger_options(event.options);
  } catch (const Error& error) {
    in.fail(error.what());
  }
  return event;
}

void put(ByteWriter& out, const ChallengerEnd& event) {
  out.put(event.time);
  out.write_string(event.name);
}

ChallengerEnd get_challenger_end(ByteReader& in) {
  const auto time = in.get<std::int64_t>();
  return {.time = time, .name = get_name(in)};
}

void put(ByteWriter& out, const Promotion& event) {
  out.put(event.time);
  out.write_string(event.name);
  put_challenger(out, event.keep_as);
}

Promotion get_promotion(ByteReader& in) {
  Promotion event;
  event.time = in.get<std::int64_t>();
  event.name = get_name(in);
  event.keep_as = get_challenger(in);
  return event;
}

void put(ByteWriter& out, const Start& event) {
  out.put(event.time);
  out.write_string(event.state);
}

Start get_start(ByteReader& in) {
  const auto time = in.get<std::int64_t>();
  return {.time = time, .state = in.read_string(kLargestFitResult)};
}

Event get_event(ByteReader& in, EventKind kind, std::size_t dimension) {
  switch (kind) {
    case EventKind::kArrival:
      return get_arrival(in);
    case EventKind::kDecision:
      return get_decision(in, dimension);
    case EventKind::kReward:
      return get_reward(in);
    case EventKind::kActivation:
      return get_activation(in);
    case EventKind::kExpiry:
      return get_expiry(in);
    case EventKind::kForgetting:
      return get_forgetting(in);
    case EventKind::kSettingsChange:
      return get_settings_change(in);
    case EventKind::kFitBegin:
      return get_fit_begin(in);
    case EventKind::kFitResult:
      return get_fit_result(in);
    case EventKind::kChallengerBegin:
      return get_challenger_begin(in);
    case EventKind::kChallengerEnd:
      return get_challenger_end(in);
    case EventKind::kPromotion:
      return get_promotion(in);
    case EventKind::kStart:
      return get_start(in);
  }
  in.fail("an unknown kind of event");
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
  Event event = get_event(in, kind, dimension);
  in.finish();
  return event;
}

}  // namespace mcnb
