"""Options of policies and environments: values of Python as the engine's tables read them."""

from __future__ import annotations

import numbers
import operator
from typing import Any, Dict, Mapping


def option_text(name: str, value: Any) -> str:
    """One value as text; the engine checks what it says."""
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
    """`value` as an int, or an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}") from None
    if not least <= number < 2**63:
        raise ValueError(f"{name}: expected a whole number from {least}, got {number}")
    return number
