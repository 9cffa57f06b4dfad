"""Builds wheels of the package mcnb for pip, by CMake: the hooks of PEP 517 and PEP 660.

It needs no other Python package, so `pip install .` works without a network, with and without build
isolation. The module is compiled for the Python that runs this. A finished build of it is used
again: that of `--config-settings build-dir=DIR`, otherwise one of the folders in build/. The wheel
has the module and the program `mcnb`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What may be here and is no source, for archives made without git.
NOT_SOURCE = {".git", ".cache", ".mypy_cache", ".pytest_cache", "build", "compile_commands.json",
              "data", "results", "PKG-INFO"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # of all files, so that equal contents give equal wheels
TAG = "cp{0.major}{0.minor}-cp{0.major}{0.minor}-{1}".format(
    sys.version_info, sysconfig.get_platform().replace("-", "_").replace(".", "_"))


def version():
    """The one of CMakeLists.txt."""
    return re.search(r"project\(mcnb VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


COMMAND = f"mcnb-{version()}.data/scripts/mcnb"  # pip installs it as the command mcnb


def metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version()}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    readme = (ROOT / project["readme"]).read_text()
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + readme


def finished_build(root):
    """A folder where CMake has built these sources for this Python, with the program; else None.
    Fast code comes first."""
    wanted = {f"CMAKE_HOME_DIRECTORY:INTERNAL={root}", "MCNB_BUILD_PYTHON:BOOL=ON",
              f"PYTHON_MODULE_EXTENSION:INTERNAL={sysconfig.get_config_var('EXT_SUFFIX')}"}
    for name in ("release", f"wheel-{TAG}", "dev"):
        folder = root / "build" / name
        cache = folder / "CMakeCache.txt"
        if ((folder / "mcnb").exists() and cache.exists()
                and wanted <= set(cache.read_text().splitlines())):
            return folder
    return None


def build(settings):
    """Compiles the module and the program. Returns the folder of the build."""
    given = (settings or {}).get("build-dir")
    folder = (ROOT / given) if given else finished_build(ROOT)
    if folder is None:
        folder = ROOT / "build" / f"wheel-{TAG}"
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(
            ["cmake", "-S", str(ROOT), "-B", str(folder), *generator, "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF", "-DMCNB_BUILD_TESTS=OFF",
             "-DMCNB_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    parallel = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    subprocess.run(["cmake", "--build", str(folder), "--target", "mcnb_python", "mcnb",
                    "--parallel", parallel], check=True)
    if not (folder / "python" / "mcnb" / module_name()).exists():
        raise SystemExit(f"{folder} was configured for another Python than {sys.executable}")
    return folder


def module_name():
    return f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


def information():
    """{name: bytes} of the folder *.dist-info."""
    wheel = f"Wheel-Version: 1.0\nGenerator: mcnb\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    return {"METADATA": metadata().encode(), "WHEEL": wheel.encode(),
            "LICENSE": (ROOT / "LICENSE").read_bytes()}


def write_wheel(wheel_directory, files):
    """Writes a wheel of {name inside: bytes}, with its metadata."""
    name = f"mcnb-{version()}"
    folder = f"{name}.dist-info"
    files = {**files, **{f"{folder}/{file}": text for file, text in information().items()}}
    record = ""
    path = Path(wheel_directory) / f"{name}-{TAG}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, content in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record += f"{inside},sha256={digest.decode()},{len(content)}\n"
            write_file(wheel, inside, content)
        write_file(wheel, f"{folder}/RECORD", (record + f"{folder}/RECORD,,\n").encode())
    return path.name


def write_file(wheel, inside, content):
    entry = zipfile.ZipInfo(inside, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    runs = inside.endswith(".so") or ".data/scripts/" in inside
    entry.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
    wheel.writestr(entry, content)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = build(config_settings)
    sources = [file for file in (ROOT / "python" / "mcnb").iterdir()
               if file.suffix in (".py", ".pyi") or file.name == "py.typed"]
    files = {f"mcnb/{file.name}": file.read_bytes() for file in sources}
    module = folder / "python" / "mcnb" / module_name()
    files[f"mcnb/{module_name()}"] = without_debug_information(module)
    files[COMMAND] = without_debug_information(folder / "mcnb")
    return write_wheel(wheel_directory, files)


def without_debug_information(path):
    """The bytes of a program or module, stripped if that is possible here."""
    if not shutil.which("strip"):
        return path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / path.name
        subprocess.run(["strip", "--strip-unneeded", "-o", str(stripped), str(path)], check=True)
        return stripped.read_bytes()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package and the program stay in the build folder, with links to the sources."""
    folder = build(config_settings)
    command = ("#!python\nimport os\nimport sys\n\n"  # pip puts its Python into the first line
               f"os.execv({str(folder / 'mcnb')!r}, sys.argv)\n")
    return write_wheel(wheel_directory, {"mcnb.pth": f"{folder / 'python'}\n".encode(),
                                         COMMAND: command.encode()})


def source_files():
    """All files that git knows; without git, or in an unpacked archive, all that were not made
    here."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        files = [ROOT / file for file in listed.stdout.split("\0") if file]
        if listed.returncode == 0 and ROOT / "pyproject.toml" in files:
            return [file for file in files if file.is_file()]
    files = []
    for top in ROOT.iterdir():
        if top.name not in NOT_SOURCE:
            files += [top] if top.is_file() else top.rglob("*")
    return [file for file in files if file.is_file() and file.parent.name != "__pycache__"]


def build_sdist(sdist_directory, config_settings=None):
    """What is needed to build."""
    name = f"mcnb-{version()}"
    files = source_files()
    path = Path(sdist_directory) / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(files):
            archive.add(file, f"{name}/{file.relative_to(ROOT)}", recursive=False)
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        text = metadata().encode()
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return path.name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """The metadata alone, without compiling anything."""
    folder = Path(metadata_directory) / f"mcnb-{version()}.dist-info"
    folder.mkdir()
    for name, text in information().items():
        (folder / name).write_bytes(text)
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel
