"""The examples and the guide do what they say."""

import os
import re
import subprocess
import sys

import pytest

import mcnb
from conftest import ROOT


def run_example(name, folder, *arguments):
    environment = dict(os.environ, MPLBACKEND="agg")
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "python" / name), *arguments],
                          cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_comparing_policies(tmp_path):
    text = run_example("compare.py", tmp_path, "--rounds", "300", "--seeds", "2")
    assert [line.split("  ")[0] for line in text.splitlines()[1:6]] == [
        "M-CNB", "CLUB", "LinUCB, one for each user", "NeuUCB, one for all", "random"]
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_own_data(tmp_path):
    text = run_example("own_data.py", tmp_path, "--rounds", "100", "--seeds", "1")
    assert text.count("mcnb") == 2 and "arrays" in text


def test_own_policy(tmp_path):
    text = run_example("own_policy.py", tmp_path, "--rounds", "600", "--seeds", "1")
    regret = {line.split()[0]: float(line.split()[1]) for line in text.splitlines()[1:5]}
    assert regret["LinearThompson"] < regret["random"]
    assert (tmp_path / "own_policy.png").read_bytes().startswith(b"\x89PNG")


def test_the_guide(tmp_path, monkeypatch, serving):
    """Runs the Python of docs/PYTHON.md, block by block, with shorter runs."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    server = serving()
    text = (ROOT / "docs" / "PYTHON.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) >= 8
    names = {}
    for block in blocks:
        block = re.sub(r"rounds=[\d_]+", "rounds=60", block)
        block = re.sub(r"http://localhost:8080", server.url, block)
        exec(compile(block, "docs/PYTHON.md", "exec"), names)


def test_the_guide_names_what_there_is():
    text = (ROOT / "docs" / "PYTHON.md").read_text()
    for name in mcnb.__all__:
        if not name.startswith("__"):
            assert name in text, f"docs/PYTHON.md does not mention {name}"
    for name in dir(mcnb.Bandit):
        if not name.startswith("_") and name != "time_choose":
            assert f"`{name}" in text, f"docs/PYTHON.md does not mention Bandit.{name}"
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (ROOT / "docs" / picture).exists()
