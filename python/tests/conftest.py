"""Fixtures and helpers that the tests share: the program, and a running service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def program():
    """The program mcnb of the same build."""
    path = os.environ.get("MCNB_BINARY", str(ROOT / "build" / "dev" / "mcnb"))
    assert os.path.exists(path), f"{path} is missing: build the target mcnb first"
    return path


class Serving:
    """The real `mcnb serve` on a free port."""

    def __init__(self, program, folder, *more, port=0):
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen(
            [program, "serve", "--data", str(folder / "data"), "--port", str(port),
             *more],
            stdout=subprocess.DEVNULL, stderr=self.log)
        self.port = None
        while self.port is None:
            text = (folder / "log").read_text()
            found = re.search(r'"listening".*"port":"(\d+)"', text)
            if found:
                self.port = int(found[1])
            elif self.process.poll() is not None:
                raise AssertionError(f"the server ended: {text}")
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@pytest.fixture
def serving(program, tmp_path):
    started = []

    def start(*more, port=0):
        started.append(Serving(program, tmp_path, *more, port=port))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def run_program(program, tmp_path):
    """Runs `mcnb run` and returns the cells of its results.json."""

    def run(*arguments):
        output = tmp_path / "results"
        subprocess.run([program, "run", "--output", str(output), *arguments], check=True,
                       capture_output=True)
        return json.loads((output / "results.json").read_text())["cells"]

    return run


def run_script(text, **more):
    """Runs a Python script with the same package."""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, **more)


def unit_rows(seed, *shape):
    made = np.random.default_rng(seed).normal(size=shape)
    return (made / np.linalg.norm(made, axis=-1, keepdims=True)).astype(np.float32)


SMALL = {"users": 12, "features": 5, "items": 60}  # of the synthetic world


def samples_file(folder):
    """Labelled samples: two classes, with a block of two features each."""
    path = folder / "samples.csv"
    path.write_text("".join(f"{label + 1},{i},{label}\n" for label in (0, 1) for i in range(5)))
    return path
