"""The measurements of a run, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quality:
    """How well a policy's clusters matched the true ones, at every round with a cluster for any
    seed; NaN for seeds without a cluster at that round."""

    rounds: npt.NDArray[np.int64]
    precision: Numbers  # (seeds, rounds), like all below
    recall: Numbers
    adjusted_rand: Numbers


@dataclass(frozen=True, eq=False)
class Result:
    """The results of every policy with every seed.

    policies       their labels
    seeds          the seeds
    rounds         where regret was noted, counted from 1; the last is the last of the run
    regret         the regret up to there, (policies, seeds, rounds): the sum of what the best arms
                   could expect less what the chosen ones could
    reward         the sum of rewards, (policies, seeds), like all below
    seconds        in choose and learn
    training_steps, adaptation_steps, memory
    quality        by label, of policies that cluster, where the truth is known
    """

    policies: List[str]
    seeds: List[int]
    rounds: npt.NDArray[np.int64]
    regret: Numbers
    reward: Numbers
    seconds: Numbers
    training_steps: npt.NDArray[np.int64]
    adaptation_steps: npt.NDArray[np.int64]
    memory: npt.NDArray[np.int64]
    quality: Dict[str, Quality]

    @classmethod
    def from_cells(cls, cells: Sequence[Dict[str, Any]], seeds: List[int], rounds: int) -> "Result":
        """Makes a Result from the engine's results of single runs, seed by seed."""
        count = len(cells) // len(seeds)
        by_policy = [cells[i::count] for i in range(count)]

        def table(name: str, dtype: Any) -> Any:
            return np.array([[cell[name] for cell in row] for row in by_policy], dtype)

        quality = {}
        for row in by_policy:
            noted = np.unique(np.concatenate([cell["quality_rounds"] for cell in row]))
            if len(noted):
                quality[row[0]["policy"]] = Quality(
                    noted, *(_at_rounds(row, name, noted)
                             for name in ("precision", "recall", "adjusted_rand")))
        return cls(
            policies=[row[0]["policy"] for row in by_policy],
            seeds=list(seeds),
            rounds=cells[0]["curve_rounds"],
            regret=table("curve", np.float64),
            reward=table("reward", np.float64),
            seconds=table("seconds", np.float64),
            training_steps=table("training_steps", np.int64),
            adaptation_steps=table("adaptation_steps", np.int64),
            memory=table("memory", np.int64),
            quality=quality,
        )

    @property
    def final_regret(self) -> Numbers:
        """The regret of all rounds, (policies, seeds)."""
        return self.regret[:, :, -1]

    def of(self, policy: str) -> Numbers:
        """The regret curves of one policy, (seeds, rounds)."""
        if policy not in self.policies:
            raise ValueError(f"policy: expected one of {', '.join(self.policies)}, got {policy!r}")
        curves: Numbers = self.regret[self.policies.index(policy)]
        return curves

    def summary(self) -> List[Dict[str, Any]]:
        """Returns one row per policy: means over the seeds, and the deviation of the regret."""
        rows = []
        for i, policy in enumerate(self.policies):
            several = len(self.seeds) > 1
            rows.append({
                "policy": policy,
                "regret": float(self.final_regret[i].mean()),
                "deviation": float(self.final_regret[i].std(ddof=1)) if several else None,
                "reward": float(self.reward[i].mean()),
                "seconds": float(self.seconds[i].mean()),
                "memory": float(self.memory[i].mean()),
            })
        return rows

    def to_frame(self) -> Any:
        """The regret curves as a pandas DataFrame with policy, seed, round and regret."""
        pandas = _pandas()
        policies, seeds, points = self.regret.shape
        return pandas.DataFrame({
            "policy": np.repeat(self.policies, seeds * points),
            "seed": np.tile(np.repeat(self.seeds, points), policies),
            "round": np.tile(self.rounds, policies * seeds),
            "regret": self.regret.ravel(),
        })

    def summary_frame(self) -> Any:
        """`summary` as a pandas DataFrame, by policy."""
        return _pandas().DataFrame(self.summary()).set_index("policy")

    def __str__(self) -> str:
        lines = [("policy", "regret", "", "reward", "seconds")]
        for row in self.summary():
            spread = "" if row["deviation"] is None else f"± {row['deviation']:.1f}"
            lines.append((row["policy"], f"{row['regret']:.1f}", spread, f"{row['reward']:.1f}",
                          f"{row['seconds']:.2f}"))
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        return "\n".join(
            "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines)

    def _repr_html_(self) -> str:
        """Returns the table as HTML, for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in ("policy", "regret", "reward", "seconds"))
        rows = ""
        for row in self.summary():
            spread = "" if row["deviation"] is None else f" ± {row['deviation']:.1f}"
            rows += (f"<tr><td>{escape(row['policy'])}</td><td>{row['regret']:.1f}{spread}</td>"
                     f"<td>{row['reward']:.1f}</td><td>{row['seconds']:.2f}</td></tr>")
        return f"<table><tr>{head}</tr>{rows}</table>"

    def __repr__(self) -> str:
        return (f"<Result of {len(self.policies)} policies, {len(self.seeds)} seeds, "
                f"{int(self.rounds[-1])} rounds>\n{self}")


def _at_rounds(cells: Sequence[Dict[str, Any]], name: str, rounds: npt.NDArray[np.int64]
               ) -> Numbers:
    """Returns one row per run; NaN at rounds that the run did not record."""
    table = np.full((len(cells), len(rounds)), np.nan)
    for row, cell in zip(table, cells):
        row[np.searchsorted(rounds, cell["quality_rounds"])] = cell[name]
    return table


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("pandas is not installed (Debian: python3-pandas); Result has the same "
                          "numbers as arrays") from None
    return pandas


def mean_and_deviation(curves: Numbers) -> "tuple[Numbers, Optional[Numbers]]":
    """Returns mean and deviation over the seeds, per round; no deviation for a single seed."""
    return curves.mean(axis=0), curves.std(axis=0, ddof=1) if len(curves) > 1 else None
