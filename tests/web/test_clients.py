"""The OpenAPI document, and clients in TypeScript and JavaScript, against the real service. They
need packages of npm, which are fetched once."""

import functools
import http.server
import json
import re
import shutil
import threading

import pytest
from conftest import HERE
from selenium.webdriver.support.ui import WebDriverWait

ROOT = HERE.parent.parent
PACKAGE = ROOT / "clients" / "typescript"
STRICT = {"strict": True, "exactOptionalPropertyTypes": True, "noUnusedLocals": True,
          "target": "ES2022", "module": "Node16", "moduleResolution": "Node16", "types": [],
          "lib": ["ES2022", "DOM", "DOM.Iterable"]}


def code_of(page, language="ts"):
    """The first block of code of a page."""
    text = page.read_text(encoding="utf-8")
    return re.search(rf"```{language}\n(.*?)```", text, re.S)[1]


def run_example(npm, folder, code, service):
    """Compiles an example strictly and runs it, with the address of the service in place of the
    usual one. Its reward must have arrived."""
    usual = "http://localhost:8080"
    assert usual in code
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": STRICT, "files": ["example.ts"]}), encoding="utf-8")
    (folder / "example.ts").write_text(code.replace(usual, service.url), encoding="utf-8")
    npm.run("tsc", "-p", ".", cwd=folder)
    assert npm.run("node", "example.js", cwd=folder).split()[0] in ("tea", "bread")
    assert service.ask("GET", "/v1/models/default")["counts"]["rewards"] == 1


def test_the_openapi_document_passes_the_linter(start, npm, tmp_path):
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(start().ask("GET", "/openapi.json")), encoding="utf-8")
    found = json.loads(npm.run(
        "redocly", "lint", document, "--format=json", "--extends=recommended",
        REDOCLY_TELEMETRY="off", REDOCLY_SUPPRESS_UPDATE_NOTICE="true"))
    assert found["problems"] == []


def test_a_generated_client_compiles_strictly_and_works(start, npm, tmp_path):
    service = start()
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(service.ask("GET", "/openapi.json")), encoding="utf-8")
    npm.run("openapi-typescript", document, "--output", tmp_path / "mcnb.ts")
    (tmp_path / "node_modules").symlink_to(npm.modules)
    run_example(npm, tmp_path, code_of(ROOT / "docs" / "HTTP_API.md"), service)


@pytest.fixture(scope="session")
def modules(npm, tmp_path_factory):
    """A node_modules with our package as npm would publish it."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("dist", "node_modules"))
    npm.run("tsc", "-p", source / "tsconfig.json")
    npm.run("npm", "pack", "--ignore-scripts", "--offline", cwd=source)
    archive = next(source.glob("*.tgz"))
    npm.run("npm", "install", "--offline", "--no-audit", "--no-fund", "--prefix", folder, archive,
            cwd=folder)
    return folder / "node_modules"


def test_the_package_holds_what_its_users_need(modules):
    installed = modules / "mcnb-client"
    names = {path.name for path in installed.rglob("*") if path.is_file()}
    assert names == {"package.json", "README.md", "index.js", "index.d.ts"}


def test_the_client_of_the_readme_compiles_and_works(start, npm, modules, tmp_path):
    service = start()
    (tmp_path / "node_modules").symlink_to(modules)
    run_example(npm, tmp_path, code_of(PACKAGE / "README.md"), service)


def test_the_client_repeats_what_got_no_answer(start, npm, modules, tmp_path, keys):
    service = start(*keys)
    (tmp_path / "node_modules").symlink_to(modules)
    shutil.copy(HERE / "client_check.mjs", tmp_path)
    assert npm.run("node", "client_check.mjs", service.url, cwd=tmp_path) == "all is well\n"
    model = service.ask("GET", "/v1/models/default", key="read-secret")
    assert (model["rounds"], model["counts"]["rewards"]) == (8, 3)


SHOP = """
import { Client } from "./index.js";
const client = new Client("SERVICE", { key: "decide-secret", retries: 0 });
try {
  const decision = await client.rank("ann", { tea: {}, bread: {} });
  document.title = `the reward is ${await client.reward(decision, 1)}`;
} catch (error) {
  document.title = error.name;
}
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Cache-Control", "no-store")  # its script changes within a second
        super().end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture()
def shop(modules, tmp_path):
    """A web page of another origin, with our package: its folder and its address."""
    folder = tmp_path / "shop"
    shutil.copytree(modules / "mcnb-client" / "dist", folder)
    (folder / "index.html").write_text(
        '<!doctype html><title>shop</title><script type="module" src="shop.js"></script>',
        encoding="utf-8")
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://localhost:{server.server_address[1]}"
        server.shutdown()


def test_the_client_works_on_a_page_of_an_origin_that_is_listed(start, browser, shop, keys):
    folder, url = shop
    for origins, title in (("https://other.example", "ConnectionError"),
                           (f"https://other.example, {url}", "the reward is learned")):
        service = start(*keys, "--origins", origins)
        (folder / "shop.js").write_text(SHOP.replace("SERVICE", service.url), encoding="utf-8")
        browser.get(url)
        WebDriverWait(browser, 20, 0.05).until(lambda _: browser.title not in ("", "shop"))
        assert browser.title == title
        service.stop()


def test_microsofts_client_works_unchanged(start, npm, tmp_path):
    service = start()
    service.ask("POST", "/v1/models", {"name": "people", "userPath": "user.id"})
    shutil.copy(HERE / "personalizer_check.cjs", tmp_path)
    assert npm.run("node", "personalizer_check.cjs", service.url, cwd=tmp_path) == "all is well\n"
    model = service.ask("GET", "/v1/models/default")
    assert (model["rounds"], model["counts"]["rewards"]) == (2, 2)


def test_microsofts_client_for_slots_works_unchanged(start, npm, tmp_path):
    service = start()
    shutil.copy(HERE / "personalizer_slots_check.cjs", tmp_path)
    assert npm.run("node", "personalizer_slots_check.cjs", service.url,
                   cwd=tmp_path) == "all is well\n"
    model = service.ask("GET", "/v1/models/default")
    assert (model["rounds"], model["counts"]["rewards"]) == (3, 3)
    slots = service.ask("GET", "/v1/models/default/events/menu-1")["slots"]
    assert [slot["rewards"][0]["value"] for slot in slots] == [1.0, 0.5]
