"""Plots of results, made with matplotlib."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from .results import Result, mean_and_deviation


def regret(result: Result, policies: Optional[Sequence[str]] = None, *, axes: Any = None,
           title: Optional[str] = None) -> Any:
    """Draws the regret of every policy: the mean over the seeds, with bands of one standard
    deviation. Returns the axes; `axes.figure.savefig("regret.png")` keeps the picture."""
    axes = _axes(axes)
    for policy in result.policies if policies is None else policies:
        mean, deviation = mean_and_deviation(result.of(policy))
        line, = axes.plot(result.rounds, mean, label=policy)
        if deviation is not None:
            axes.fill_between(result.rounds, mean - deviation, mean + deviation,
                              color=line.get_color(), alpha=0.2, linewidth=0)
    _finish(axes, "cumulative regret", title)
    axes.set_ylim(bottom=0)
    return axes


def quality(result: Result, measure: str = "adjusted_rand", *, axes: Any = None,
            title: Optional[str] = None) -> Any:
    """Draws how well the policies' clusters match the true ones; "adjusted_rand", "precision" or
    "recall"."""
    if measure not in ("adjusted_rand", "precision", "recall"):
        raise ValueError('measure: expected "adjusted_rand", "precision" or "recall", '
                         f"got {measure!r}")
    if not result.quality:
        raise ValueError("result: expected policies that cluster, where the truth is known")
    axes = _axes(axes)
    for policy, found in result.quality.items():
        axes.plot(found.rounds, np.nanmean(getattr(found, measure), axis=0), label=policy)
    _finish(axes, measure.replace("_", " "), title)
    return axes


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("matplotlib is not installed (Debian: python3-matplotlib)") from None
    return pyplot.subplots(figsize=(7, 4.5), layout="constrained")[1]


def _finish(axes: Any, what: str, title: Optional[str]) -> None:
    axes.set_xlabel("round")
    axes.set_ylabel(what)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    if title:
        axes.set_title(title)
