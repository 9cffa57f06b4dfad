"""Decisions that explore, with the exact probability of every arm."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from . import _core
from .bandit import Bandit


class Choice(NamedTuple):
    """A decision: the arm, its probability, and the probabilities of all arms."""

    arm: Any
    probability: float
    probabilities: npt.NDArray[np.float64]


class Exploring:
    """A bandit whose decisions are drawn with known probabilities, so that its log can be
    evaluated.

    Give one of these:

    epsilon   the bandit's own arm with 1 - epsilon, plus epsilon spread evenly over all arms
    softmax   arms with probabilities in proportion to exp(estimate / softmax)
    squarecb  SquareCB (Foster and Rakhlin 2020): 1 / (arms + squarecb * gap) for an arm whose
              estimate is lower by `gap` than the best one, which gets the rest
    """

    def __init__(self, bandit: Bandit, *, epsilon: Optional[float] = None,
                 softmax: Optional[float] = None, squarecb: Optional[float] = None,
                 seed: int = 0) -> None:
        if not isinstance(bandit, Bandit):
            raise TypeError(f"bandit: expected a Bandit, got {type(bandit).__name__}")
        given = {"epsilon": epsilon, "softmax": softmax, "squarecb": squarecb}
        chosen = [(name, value) for name, value in given.items() if value is not None]
        if len(chosen) != 1:
            raise ValueError(f"expected one of epsilon, softmax and squarecb, got {len(chosen)}")
        name, value = chosen[0]
        self.bandit = bandit
        self.exploration = f"{name}={float(value)!r}"
        self._chance = np.random.default_rng(seed)
        _core.choice_probabilities(self.exploration, np.zeros(1), np.zeros(1))  # refuses it now

    def probabilities(self, user: Any, arms: Any, **more: Any) -> npt.NDArray[np.float64]:
        """Returns the probabilities of the arms of one round, without a decision."""
        scores = self.bandit.scores(user, arms, **more)
        if scores.ndim != 1:
            raise ValueError(f"arms: expected one round, got {len(scores)}")
        left_out = np.where(scores["considered"], scores["value"], -np.inf)
        return _core.choice_probabilities(self.exploration, scores["estimate"], left_out)

    def choose(self, user: Any, arms: Any, **more: Any) -> Choice:
        """Draws an arm. If `arms` is a dict, `arm` is the key of one of them."""
        self.bandit.choose(user, arms, **more)
        probabilities = self.probabilities(user, arms, **more)  # of this decision
        index = int(self._chance.choice(len(probabilities), p=probabilities))
        self.bandit.decide(index)
        return Choice(list(arms)[index] if isinstance(arms, dict) else index,
                      float(probabilities[index]), probabilities)

    def learn(self, *arguments: Any, **more: Any) -> None:
        """Calls `learn` of the bandit."""
        self.bandit.learn(*arguments, **more)

    def __repr__(self) -> str:
        return f"Exploring({self.bandit!r}, {self.exploration})"
