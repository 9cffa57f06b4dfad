"""Clustered neural contextual bandits: the engine mcnb, from Python.

>>> import mcnb
>>> bandit = mcnb.Bandit("mcnb", features=10, users=50)
>>> arm = bandit.choose(user=3, arms=arms)          # arms: an array of shape (arms, 10)
>>> bandit.learn(user=3, arm=arms[arm], reward=1.0)

Compare policies: `mcnb.run`, `mcnb.environments`, `mcnb.plot`. Write your own: `mcnb.Policy`,
`mcnb.Environment`. Learn from logs, and ask what another policy would have earned: `mcnb.logs`,
`Bandit.fit`, `mcnb.evaluate`, `mcnb.Exploring`. Talk to the service `mcnb serve`: `mcnb.Client`.
The guide is docs/PYTHON.md.
"""

from . import environments, logs, plot
from ._core import __version__, simd_target
from .bandit import Bandit, policies
from .client import Client, Decision, ServiceError, SlotDecision, SlotDecisions
from .environment import Environment
from .evaluation import Evaluation, evaluate
from .exploring import Choice, Exploring
from .policy import Policy, Setup
from .results import Result
from .rounds import Round
from .runner import run

__all__ = [
    "Bandit",
    "Choice",
    "Client",
    "Decision",
    "Environment",
    "Evaluation",
    "Exploring",
    "Policy",
    "Result",
    "Round",
    "ServiceError",
    "Setup",
    "SlotDecision",
    "SlotDecisions",
    "__version__",
    "environments",
    "evaluate",
    "logs",
    "plot",
    "policies",
    "run",
    "simd_target",
]
