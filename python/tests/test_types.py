"""What editors and type checkers see: real signatures, and types that mypy accepts."""

import importlib.util
import inspect
import subprocess
import sys

import pytest

import mcnb
from conftest import ROOT


def public_callables():
    """(name, function) of everything public: functions, classes, and methods of classes."""
    for name in mcnb.__all__:
        thing = getattr(mcnb, name)
        if inspect.isclass(thing):
            yield name, thing
            for base in reversed(thing.__mro__[:-1]):
                ours = base.__module__.startswith("mcnb.") and base.__module__ != "mcnb._core"
                for method in vars(base) if ours else ():
                    if not method.startswith("_") and callable(getattr(thing, method)):
                        yield f"{name}.{method}", getattr(thing, method)
        elif callable(thing):
            yield name, thing
        elif inspect.ismodule(thing):
            for function in getattr(thing, "__all__", []):
                yield f"{name}.{function}", getattr(thing, function)


def test_everything_public_has_a_signature():
    checked = set()
    for name, thing in public_callables():
        if inspect.isclass(thing) and issubclass(thing, Exception):
            continue
        signature = inspect.signature(thing)
        assert "args" not in signature.parameters, name
        checked.add(name)
    assert {"run", "policies", "Bandit", "Bandit.choose", "Bandit.save", "Client.rank"} <= checked
    assert all(callable(getattr(mcnb.Bandit, name)) for name in ("get_params", "fit", "save"))
    choose = inspect.signature(mcnb.Bandit.choose).parameters
    assert list(choose)[:3] == ["self", "user", "arms"]


needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")


def mypy(cache, *arguments, folder=ROOT):
    return subprocess.run([sys.executable, "-m", "mypy", "--no-color-output", "--cache-dir",
                           str(cache), *arguments],
                          cwd=folder, capture_output=True, text=True)


@needs_mypy
def test_mypy_finds_nothing_wrong(tmp_path):
    done = mypy(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_mypy
def test_mypy_checks_what_users_write(tmp_path):
    (tmp_path / "user.py").write_text(
        "import numpy as np\n"
        "import mcnb\n"
        "bandit = mcnb.Bandit('mcnb', features=5, users=20)\n"
        "arm = bandit.choose(3, np.zeros((4, 5)))\n"
        "bandit.learn(3, [0.0] * 5, 1.0)\n"
        "again = mcnb.Bandit(**bandit.get_params())\n"
        "result: mcnb.Result = mcnb.run('synthetic', 'linucb', 10, 1)\n"
        "bandit.lern(3, [0.0] * 5, 1.0)\n"
        "mcnb.Bandit('mcnb', features='five')\n")
    done = mypy(tmp_path / "cache", "--strict", "--config-file", "", "user.py", folder=tmp_path)
    wrong = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in wrong] == ["8", "9"], done.stdout + done.stderr
