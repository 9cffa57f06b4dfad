import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver

from screen import Screen
from service import Service

HERE = Path(__file__).resolve().parent
# Where packages, screenshots and whatever else the tests make are kept.
WORK = Path(os.environ["MCNB_WEB_WORK"])
NO_NPM = 77  # what ctest takes for "skipped"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium without a window. As root it runs only without its sandbox."""
    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu",
                     "disable-background-networking", "disable-component-update", "disable-sync",
                     "hide-scrollbars", "lang=en",
                     f"user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument("--" + argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Driver("/usr/bin/chromedriver"), options=options)
    yield driver
    driver.quit()


@pytest.fixture()
def screen(browser):
    return Screen(browser)


@pytest.fixture()
def start(tmp_path):
    """Starts services that end with the test."""
    started = []

    def run(*arguments: str, port: int = 0) -> Service:
        started.append(Service(tmp_path, *arguments, port=port))
        return started[-1]

    yield run
    for one in started:
        one.kill()


@pytest.fixture()
def keys(tmp_path):
    """The arguments of a service with a key for each role: its name with "-secret"."""
    lines = ""
    for role in ("decide", "read", "admin"):
        digest = hashlib.sha256(f"{role}-secret".encode()).hexdigest()
        lines += f'[[keys]]\nname = "{role}"\nrole = "{role}"\nsha256 = "{digest}"\n'
    (tmp_path / "keys.toml").write_text(lines, encoding="utf-8")
    return ("--config", str(tmp_path / "keys.toml"))


class Npm:
    """The packages of package-lock.json, and what runs with them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules = folder / "node_modules"

    def fetch(self) -> str:
        """Fetches them unless they are there. Returns why it could not, or an empty text."""
        lock = (HERE / "package-lock.json").read_bytes()
        digest = hashlib.sha256(lock).hexdigest()
        complete = self.folder / "complete"
        if complete.exists() and complete.read_text(encoding="utf-8") == digest:
            return ""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, self.folder)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1",
             "--fetch-timeout=20000"],
            cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            if "integrity" in done.stderr.lower() or "EUSAGE" in done.stderr:
                raise AssertionError("the packages differ from package-lock.json:\n" + done.stderr)
            return done.stderr.strip()
        complete.write_text(digest, encoding="utf-8")
        return ""

    def run(self, *command, cwd=None, **variables) -> str:
        """Runs a program, by name if it is one of a package, and returns what it printed."""
        first = self.modules / ".bin" / str(command[0])
        line = [str(first) if first.exists() else str(command[0]), *map(str, command[1:])]
        done = subprocess.run(
            line, cwd=cwd or self.folder, capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | {"NODE_PATH": str(self.modules), **variables})
        assert done.returncode == 0, f"{line}:\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def npm():
    packages = Npm(WORK / "npm")
    why = packages.fetch()
    if why:
        pytest.skip(f"npm cannot be reached, so tests with its packages were left out: {why}")
    return packages


def pytest_sessionfinish(session, exitstatus):
    """If all was skipped, ctest shall say so."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", []))
    if exitstatus == 0 and skipped > 0 and not reporter.stats.get("passed"):
        session.exitstatus = NO_NPM
