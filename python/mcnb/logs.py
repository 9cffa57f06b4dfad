"""Logs of decisions: what was chosen, with which probability, and what came of it.

>>> log = mcnb.logs.open("decisions.dsjson")      # or CSV, JSON lines, Open Bandit, a data folder
>>> for round in log: ...                         # one `LoggedRound` after the other
>>> log = mcnb.logs.from_frame(frame)             # a pandas frame with a row for each decision
"""

from __future__ import annotations

import builtins
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from . import _core
from .options import path_text, whole_number

# The columns that a table may have beside those of features; docs/EVALUATION.md.
_COLUMNS = ("event", "user", "time", "slot", "action", "probability", "reward", "actions")


@dataclass(frozen=True)
class LoggedAction:
    """Something that could be chosen. `features` are a dict, or the numbers themselves."""

    id: str
    features: Any = None


@dataclass(frozen=True)
class LoggedRound:
    """One decision of one slot, as a log keeps it, and what came of it.

    chosen         the index of the chosen action, and its probability
    probabilities  of all actions; None if the log has only that of the chosen one
    reward         None if there was none
    excluded       marked as not to be learned, such as an event that nobody saw
    """

    actions: Sequence[LoggedAction]
    chosen: int
    probability: float
    reward: Optional[float] = None
    context: Mapping[str, Any] = field(default_factory=dict)
    event: str = ""
    user: str = ""
    time: Optional[str] = None
    slot: int = 0
    slots: int = 1
    slot_id: str = ""
    slot_features: Optional[Any] = None
    eligible: Optional[Sequence[bool]] = None
    probabilities: Optional[Sequence[float]] = None
    default_reward: bool = False
    excluded: bool = False
    drop_probability: float = 0.0

    @property
    def action(self) -> str:
        """Returns the id of the chosen action."""
        return self.actions[self.chosen].id


class Log:
    """A log that is read from front to back, as often as needed, without being kept in memory."""

    def __init__(self, core: _core.Log) -> None:
        self._core = core

    def __iter__(self) -> Iterator[LoggedRound]:
        rounds = _core.RoundIterator(self._core, True)
        while True:
            try:
                values = rounds.next()
            except StopIteration:
                return
            yield _round_of(values)

    def write(self, path: Union[str, "os.PathLike[str]"], format: str = "jsonl") -> None:
        """Writes the log as dsjson, jsonl or csv. Reading it back gives the same rounds."""
        self._core.write(path_text("path", path), format)

    def to_frame(self) -> Any:
        """Returns a pandas frame with a row for each round, without the features."""
        import pandas

        return pandas.DataFrame([{
            "event": one.event, "user": one.user, "time": one.time, "slot": one.slot,
            "action": one.action if one.action else one.chosen, "probability": one.probability,
            "reward": one.reward, "excluded": one.excluded} for one in self])

    def __repr__(self) -> str:
        return f"Log({self._core.path!r})"


def open(path: Union[str, "os.PathLike[str]"], *, skip_bad: int = 0, model: str = "",
         start: str = "", end: str = "") -> Log:
    """Opens a log: dsjson, JSON lines, CSV or Open Bandit, plain or .gz, or the store of
    `mcnb serve`: its data folder or its postgresql://...

    skip_bad    how many damaged lines are left out before one is an error
    model       the model, of a store with several
    start, end  only decisions from `start` on, and before `end`: "2026-01-31"
    """
    name = path_text("path", path)
    if not os.path.isdir(name):
        with builtins.open(name, "rb"):  # raises Python's own errors
            pass
    return Log(_core.Log(name, None, whole_number("skip_bad", skip_bad), model, start, end))


def from_rounds(rounds: Iterable[Union[LoggedRound, Mapping[str, Any]]]) -> Log:
    """Makes a log of rounds: `LoggedRound`s, or dicts as docs/EVALUATION.md describes them."""
    lines = [json.dumps(_to_json(one) if isinstance(one, LoggedRound) else dict(one),
                        allow_nan=False) for one in rounds]
    if not lines:
        raise ValueError("rounds: expected at least one")
    return _from_text("rounds", "\n".join(lines) + "\n")


def from_frame(frame: Any, *, action: str = "action", probability: str = "probability",
               reward: str = "reward", actions: Optional[str] = None, user: Optional[str] = None,
               event: Optional[str] = None, time: Optional[str] = None, slot: Optional[str] = None,
               features: Optional[Sequence[str]] = None) -> Log:
    """Makes a log of a pandas frame with a row for each decision.

    The arguments name columns. `actions` has the actions that could be chosen: lists, or texts such
    as "tea|juice"; without it, all that any row chose. Missing rewards are rounds without one.
    Columns in `features` describe the context (default: all other columns); numbers are numbers,
    anything else is a category.
    """
    named = {"action": action, "probability": probability, "reward": reward, "actions": actions,
             "user": user, "event": event, "time": time, "slot": slot}
    used = {known: column for known, column in named.items() if column is not None}
    for known, column in used.items():
        if column not in frame.columns:
            raise ValueError(f"{known}: expected a column of the frame, got {column!r}")
    if features is None:
        features = [column for column in frame.columns if column not in used.values()]
    table = {known: frame[column] for known, column in used.items()}
    for column in features:
        if column not in frame.columns:
            raise ValueError(f"features: expected columns of the frame, got {column!r}")
        name = str(column)
        if name in _COLUMNS or name == "round":  # such a name says what a column is
            name = f"feature {name}"
        table[name] = frame[column]
    if actions is not None:
        table["actions"] = frame[actions].map(
            lambda some: some if isinstance(some, str) else "|".join(str(one) for one in some))
    import pandas

    return _from_text("frame", pandas.DataFrame(table).to_csv(index=False))


def _from_text(name: str, text: str) -> Log:
    return Log(_core.Log(name, text, 0, "", "", ""))


def _to_json(one: LoggedRound) -> Dict[str, Any]:
    actions: List[Dict[str, Any]] = []
    for number, action in enumerate(one.actions):
        entry: Dict[str, Any] = {"id": action.id}
        if action.features is not None:
            entry["features"] = action.features
        if one.probabilities is not None:
            entry["probability"] = one.probabilities[number]
        if one.eligible is not None and not one.eligible[number]:
            entry["eligible"] = False
        actions.append(entry)
    line: Dict[str, Any] = {"actions": actions, "chosen": one.chosen,
                            "probability": one.probability}
    optional = {"event": one.event or None, "user": one.user or None, "time": one.time,
                "slot": one.slot or None, "slots": one.slots if one.slots > 1 else None,
                "slotId": one.slot_id or None, "slotFeatures": one.slot_features,
                "context": dict(one.context) or None, "reward": one.reward,
                "defaultReward": one.default_reward or None, "excluded": one.excluded or None,
                "dropProbability": one.drop_probability or None}
    line.update({name: value for name, value in optional.items() if value is not None})
    return line


def _json(text: Optional[str]) -> Any:
    return None if text is None else json.loads(text)


def _round_of(values: Any) -> LoggedRound:
    (event, user, time, slot, slots, slot_id, slot_features, context, actions, eligible, chosen,
     probability, probabilities, reward, default_reward, excluded, drop_probability) = values
    return LoggedRound(
        actions=[LoggedAction(id, _json(features)) for id, features in actions], chosen=chosen,
        probability=probability, reward=reward, context=_json(context) or {}, event=event,
        user=user, time=time, slot=slot, slots=slots, slot_id=slot_id,
        slot_features=_json(slot_features), eligible=eligible, probabilities=probabilities,
        default_reward=default_reward, excluded=excluded, drop_probability=drop_probability)
