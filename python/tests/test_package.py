"""The package as users get it: typed, installed by pip, in a virtual environment."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import mcnb
from conftest import ROOT, run_script
from mcnb import _core, bench


STUBS = ROOT / "python" / "mcnb" / "_core.pyi"


def stub_names(node):
    return {child.name for child in node.body if isinstance(child, (ast.FunctionDef, ast.ClassDef))}


def test_stubs_name_exactly_what_the_module_has():
    tree = ast.parse(STUBS.read_text())
    public = {name for name in dir(_core) if not name.startswith("__")}
    declared = stub_names(tree) | {
        child.target.id for child in tree.body if isinstance(child, ast.AnnAssign)}
    assert declared - {"__version__"} == public
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = {name for name in vars(getattr(_core, node.name))
                       if not name.startswith("__") and not name.startswith("_pybind11")}
            assert stub_names(node) - {"__init__"} == members, node.name


def stub_arguments(function):
    """The names of the parameters in order. "*" comes before the keyword-only ones, and "=" after
    the optional ones."""
    given = function.args
    optional = [False] * (len(given.args) - len(given.defaults)) + [True] * len(given.defaults)
    names = [a.arg + "=" * o for a, o in zip(given.args, optional)]
    if given.kwonlyargs:
        names += ["*"] + [a.arg + "=" * (default is not None)
                          for a, default in zip(given.kwonlyargs, given.kw_defaults)]
    return names


def real_arguments(signature):
    """The names as above, from "choose(self: Bandit, user: handle, *, items: handle = None)"."""
    inside = re.match(r"(?:\d+\. )?\w+\((.*)\) -> ", signature)[1]
    inside = re.sub(r"\[[^][]*\]", "", re.sub(r"\[[^][]*\]", "", inside))  # of types
    return [part.split(":")[0] + "=" * (" = " in part) for part in inside.split(", ") if part]


def test_stubs_have_exactly_the_arguments_of_the_module():
    tree = ast.parse(STUBS.read_text())
    declared, real = {}, {}
    for node in tree.body:
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if not isinstance(function, ast.FunctionDef):
                continue
            owner = getattr(_core, node.name) if isinstance(node, ast.ClassDef) else _core
            thing = getattr(owner, function.name)
            name = f"{node.name}.{function.name}"
            if isinstance(thing, property):
                assert stub_arguments(function) == ["self"], name
                continue
            declared.setdefault(name, []).append(stub_arguments(function))
            lines = thing.__doc__.splitlines()
            overloads = [line for line in lines if re.match(r"\d+\. \w+\(", line)]
            real[name] = [real_arguments(line) for line in overloads or lines[:1]]
    assert declared == real
    assert ["self", "*", "path", "threads", "device"] in real["Bandit.__init__"]
    assert real["Bandit.learn"] == [["self", "user", "arm", "reward", "*", "item=", "offset=",
                                     "round=", "index="]]


def test_stubs_say_what_is_a_property():
    tree = ast.parse(STUBS.read_text())
    for node in tree.body:
        for function in node.body if isinstance(node, ast.ClassDef) else []:
            marked = any(getattr(one, "id", "") == "property" for one in function.decorator_list)
            real = isinstance(vars(getattr(_core, node.name)).get(function.name), property)
            assert marked == real, f"{node.name}.{function.name}"


def test_numpy_2_is_refused_where_the_module_cannot_read_its_arrays():
    """pybind11 before 2.12, as in Debian 12, misreads the arrays of NumPy 2."""
    done = run_script("import numpy; numpy.__version__ = '2.1.0'; import mcnb")
    header = Path("/usr/include/pybind11/detail/common.h").read_text()
    major, minor = (int(re.search(rf"#define PYBIND11_VERSION_{part} (\d+)", header)[1])
                    for part in ("MAJOR", "MINOR"))
    if (major, minor) < (2, 12):
        assert "ImportError: mcnb: expected NumPy 1, got NumPy 2.1.0" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_the_benchmark_of_calls_says_what_it_should(capsys):
    status = bench.main(["--users", "2", "--features", "3", "--arms", "4", "--calls", "3",
                         "--repeats", "2", "--policies", "linucb,random"])
    head, columns, *rows, verdict = capsys.readouterr().out.splitlines()
    assert head == "choose, 2 users, 4 arms of 3 numbers; microseconds a call"
    assert columns.split() == ["policy", "C++", "float32", "float64", "list", "limit"]
    assert [row.split()[0] for row in rows] == ["linucb", "random"]
    over = False
    for row in rows:
        inside, single, double, listed, limit = (float(number) for number in row.split()[1:])
        assert min(inside, single, double, listed) > 0
        assert limit == pytest.approx(2 * inside + 5, abs=0.03)
        over = over or single > limit
    assert verdict.endswith("exceeded" if over else "kept") and status == (1 if over else 0)


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
    command = environment / "bin" / "mcnb"
    said = subprocess.run([str(command), "--version"], env=outside, capture_output=True, text=True)
    assert said.stdout == f"{mcnb.__version__}\n", said.stderr


def test_pip_takes_a_finished_build_of_these_sources_for_this_python(tmp_path):
    def found():
        script = ("import build_backend, pathlib, sys;"
                  "print(build_backend.finished_build(pathlib.Path(sys.argv[1])))")
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment,
                              capture_output=True, text=True, check=True).stdout.strip()

    def put(name, source=tmp_path, ending=sysconfig.get_config_var("EXT_SUFFIX"), program="mcnb"):
        folder = tmp_path / "build" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / program).touch()
        (folder / "CMakeCache.txt").write_text(
            f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\nMCNB_BUILD_PYTHON:BOOL=ON\n"
            f"PYTHON_MODULE_EXTENSION:INTERNAL={ending}\n")
        return str(folder)

    assert found() == "None"
    put("release", program="unfinished")
    assert found() == "None"
    put("release", source="elsewhere")
    assert found() == "None"
    put("release", ending=".cpython-39-other.so")
    assert found() == "None"
    dev = put("dev")
    assert found() == dev
    release = put("release")
    assert found() == release


@pytest.mark.skipif(os.environ.get("MCNB_LONG_TESTS") != "1", reason="only with ./test --long")
def test_pip_makes_the_same_wheel_without_build_isolation(build_folder, tmp_path):
    settings = ["--no-index", "--config-settings", f"build-dir={build_folder}"]
    wheels = []
    for name in ("one", "two"):
        pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", *settings, "--wheel-dir",
            str(tmp_path / name), str(ROOT), cwd=tmp_path)
        wheels += (tmp_path / name).glob("mcnb-*.whl")
    assert wheels[0].name == wheels[1].name
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_equal_files_make_equal_wheels_with_metadata(tmp_path):
    script = ("import build_backend, sys; files = {'mcnb/b.so': b'b', 'mcnb/a.py': b'a'};"
              "print(build_backend.write_wheel(sys.argv[1], files))")
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1")
    wheels = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made = subprocess.run([sys.executable, "-c", script, str(tmp_path / name)],
                              env=environment, capture_output=True, text=True, check=True)
        wheels.append(tmp_path / name / made.stdout.strip())
    assert wheels[0].name == wheels[1].name
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        metadata = wheel.read(f"mcnb-{mcnb.__version__}.dist-info/METADATA").decode()
    assert "mcnb/a.py" in names and "mcnb/b.so" in names
    assert f"Version: {mcnb.__version__}\n" in metadata and "Requires-Dist: numpy" in metadata


def source_archive(root, folder):
    """The names in an archive of the sources in `root`."""
    script = "import build_backend, sys; print(build_backend.build_sdist(sys.argv[1]))"
    folder.mkdir()
    environment = dict(os.environ, PYTHONPATH=str(root / "python"), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-c", script, str(folder)], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(folder / done.stdout.strip()) as archive:
        names = archive.getnames()
    assert len(names) == len(set(names))
    return names


def test_a_source_archive_has_what_a_build_needs(tmp_path):
    names = source_archive(ROOT, tmp_path / "made")
    base = f"mcnb-{mcnb.__version__}/"
    for file in ("CMakeLists.txt", "pyproject.toml", "PKG-INFO", "python/src/module.cpp",
                 "python/mcnb/__init__.py", "mcnb/bandit/policy.h", "LICENSE"):
        assert base + file in names


def test_a_source_archive_needs_no_git(tmp_path, monkeypatch):
    """An unpacked archive, without the program and without git, makes the same archive."""
    names = source_archive(ROOT, tmp_path / "first")
    with tarfile.open(next((tmp_path / "first").iterdir())) as archive:
        archive.extractall(tmp_path)
    unpacked = tmp_path / f"mcnb-{mcnb.__version__}"
    (unpacked / "build").mkdir()
    (unpacked / "build" / "object").write_text("made here")
    (unpacked / "python" / "__pycache__").mkdir()
    (unpacked / "python" / "__pycache__" / "build_backend.pyc").write_text("made here, too")
    assert sorted(source_archive(unpacked, tmp_path / "without a repository")) == sorted(names)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("git") is None
    assert sorted(source_archive(unpacked, tmp_path / "without git")) == sorted(names)
