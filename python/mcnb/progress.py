"""Shows the progress of a run on standard error."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, Union

Progress = Callable[[int, int, int, int], None]
_BAR = 30
_PAUSE = 0.2  # seconds between two updates


class ProgressBar:
    """A progress bar on one line, which is overwritten."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = 0.0
        self._length = 0

    def __call__(self, rounds: int, all_rounds: int, runs: int, all_runs: int) -> None:
        now = time.monotonic()
        if rounds == 0 or (now - self._shown < _PAUSE and rounds < all_rounds):
            return
        self._shown = now
        share = rounds / all_rounds
        speed = rounds / max(now - self._start, 1e-9)
        full = round(share * _BAR)
        text = (f"{'█' * full}{'░' * (_BAR - full)} {100 * share:3.0f} %  {runs} of {all_runs} "
                f"runs  {speed:.0f} rounds/s  {(all_rounds - rounds) / speed:.0f} s left")
        self._write("\r" + text.ljust(self._length))
        self._length = len(text)

    def close(self) -> None:
        if self._length:
            self._write("\n")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def progress_for(wish: Union[None, bool, Progress]) -> Optional[Progress]:
    """Returns the function to call during a run, or None."""
    if wish is None:
        wish = bool(sys.stderr and sys.stderr.isatty()) or "ipykernel" in sys.modules
    if wish is True:
        return ProgressBar()
    if wish is False:
        return None
    if callable(wish):
        return wish
    raise TypeError(f"progress: expected True, False, None or a function, got "
                    f"{type(wish).__name__}")
