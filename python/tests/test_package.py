"""The package as others get it: typed, by pip, in a virtual environment."""

import ast
import inspect
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mcnb
from conftest import ROOT
from mcnb import _core


def stub_names(node):
    return {child.name for child in node.body if isinstance(child, (ast.FunctionDef, ast.ClassDef))}


def test_stubs_name_exactly_what_the_module_has():
    tree = ast.parse((ROOT / "python" / "mcnb" / "_core.pyi").read_text())
    public = {name for name in dir(_core) if not name.startswith("__")}
    declared = stub_names(tree) | {
        child.target.id for child in tree.body if isinstance(child, ast.AnnAssign)}
    assert declared - {"__version__"} == public
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = {name for name in vars(getattr(_core, node.name))
                       if not name.startswith("__") and not name.startswith("_pybind11")}
            assert stub_names(node) - {"__init__"} == members, node.name


def test_stubs_name_the_arguments_of_the_module():
    tree = ast.parse((ROOT / "python" / "mcnb" / "_core.pyi").read_text())
    for node in tree.body:
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            owner = getattr(_core, node.name) if isinstance(node, ast.ClassDef) else _core
            real = getattr(owner, function.name)
            if isinstance(real, property):
                continue
            declared = [a.arg for a in function.args.args + function.args.kwonlyargs]
            signature = real.__doc__.splitlines()[0]
            for name in declared:
                assert f"{name}:" in signature, f"{function.name}: {name} is not in {signature}"


def test_everything_public_has_a_docstring():
    for name in mcnb.__all__:
        thing = getattr(mcnb, name)
        if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
            assert thing.__doc__, name
    for name in ("choose", "scores", "cluster", "learn", "partial_fit", "predict", "load", "save"):
        assert getattr(mcnb.Bandit, name).__doc__, name


def test_the_version_is_the_programs(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    assert mcnb.__version__ in said


@pytest.fixture(scope="module")
def build_folder():
    folder = os.environ.get("MCNB_BUILD_DIR")
    if not folder:
        pytest.skip("MCNB_BUILD_DIR names no build to make a wheel of")
    return folder


def pip(python, *arguments, **more):
    done = subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", *arguments],
                          capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pip_installs_it_where_the_systems_packages_are_seen(build_folder, tmp_path):
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip",
                    str(environment)], check=True)
    python = environment / "bin" / "python"
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = ["--no-index", "--config-settings", f"build-dir={build_folder}"]
    pip(python, "install", *settings, str(ROOT), env=outside, cwd=tmp_path)
    script = ("import mcnb, sys; print(mcnb.__file__);"
              "print(mcnb.run('synthetic', 'mcnb', 20, 1).final_regret)")
    done = subprocess.run([str(python), "-c", script], env=outside, cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    installed = Path(done.stdout.splitlines()[0])
    assert environment in installed.parents
    assert (installed.parent / "py.typed").exists() and (installed.parent / "_core.pyi").exists()

    # Without build isolation, too; and the same files give the same wheel.
    wheels = []
    for name in ("one", "two"):
        pip(python, "wheel", "--no-build-isolation", "--no-deps", *settings, "--wheel-dir",
            str(tmp_path / name), str(ROOT), env=outside, cwd=tmp_path)
        wheels += (tmp_path / name).glob("mcnb-*.whl")
    assert wheels[0].name == wheels[1].name
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        metadata = wheel.read(f"mcnb-{mcnb.__version__}.dist-info/METADATA").decode()
    assert "mcnb/py.typed" in names and "mcnb/bandit.py" in names
    assert f"Version: {mcnb.__version__}\n" in metadata and "Requires-Dist: numpy" in metadata


def test_a_source_archive_has_what_a_build_needs(tmp_path):
    import tarfile

    sys.path.insert(0, str(ROOT / "python"))
    try:
        import build_backend
        name = build_backend.build_sdist(tmp_path)
    finally:
        sys.path.pop(0)
    with tarfile.open(tmp_path / name) as archive:
        names = archive.getnames()
    base = f"mcnb-{mcnb.__version__}/"
    for file in ("CMakeLists.txt", "pyproject.toml", "PKG-INFO", "python/src/module.cpp",
                 "python/mcnb/__init__.py", "mcnb/bandit/policy.h", "LICENSE"):
        assert base + file in names
