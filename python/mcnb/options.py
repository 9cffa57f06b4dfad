"""Converts Python values of options to the texts that the engine reads."""

from __future__ import annotations

import numbers
import operator
import os
from typing import Any, Dict, Mapping

import numpy as np

_MOST = 2**63 - 1


def option_text(name: str, value: Any) -> str:
    """Converts one value to text; the engine checks its meaning."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    raise TypeError(f"option {name}: expected a number, a text or a truth value, "
                    f"got {type(value).__name__}")


def option_texts(options: Mapping[str, Any]) -> Dict[str, str]:
    return {name: option_text(name, value) for name, value in options.items()}


def whole_number(name: str, value: Any, least: int = 0) -> int:
    """Returns `value` as an int, or raises an error that names the argument. Refuses booleans."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}") from None
    if number < least:
        raise ValueError(f"{name}: expected a whole number from {least}, got {number}")
    if number > _MOST:
        raise ValueError(f"{name}: expected a whole number up to {_MOST}, got {number}")
    return number


def path_text(name: str, value: Any) -> str:
    """Returns a path as text, or raises an error that names the argument."""
    try:
        text = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {type(value).__name__}") from None
    if not text or "\0" in text:
        raise ValueError(f"{name}: expected a path, got {text!r}")
    return text
