"""What a test does with a page in the browser."""

import base64
import os
from pathlib import Path

from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SCREENSHOTS = Path(os.environ["MCNB_WEB_WORK"]) / "screenshots"


class Screen:
    def __init__(self, browser):
        self.browser = browser

    def open(self, service, part="", width=1400, dark=False):
        self.visit(f"{service.url}/#/{part}", width, dark)

    def visit(self, url, width=1400, dark=False):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.browser.get("about:blank")
        self.browser.get_log("browser")
        self.browser.get(url)

    def text(self, selector="body"):
        found = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found[0].text if found else ""

    def wait(self, words, selector="body", seconds=20):
        """Until the words are there."""
        WebDriverWait(self.browser, seconds, 0.05, [Exception]).until(
            lambda _: words in self.text(selector), f"{words!r} in {self.text(selector)[:1500]!r}")

    def find(self, selector):
        return WebDriverWait(self.browser, 20, 0.05).until(
            lambda browser: browser.find_element(By.CSS_SELECTOR, selector), selector)

    def point_at(self, selector, x, y):
        """Moves the mouse to so many pixels from the upper left corner of an element."""
        corner = self.browser.execute_script("""
            arguments[0].scrollIntoView({block: "center", inline: "start"});
            const box = arguments[0].getBoundingClientRect();
            return [box.left, box.top];""", self.find(selector))
        mouse = ActionBuilder(self.browser, duration=0)
        mouse.pointer_action.move_to_location(round(corner[0] + x), round(corner[1] + y))
        mouse.perform()

    def shot(self, name, whole=True):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot",
                                            {"captureBeyondViewport": whole, "format": "png"})
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def expect_no_complaints(self, *expected):
        """The browser has no errors: scripts, styles, the security policy."""
        lines = [line["message"] for line in self.browser.get_log("browser")
                 if line["level"] == "SEVERE"]
        assert not [line for line in lines if not any(part in line for part in expected)]

    def expect_to_fit(self):
        wide = self.browser.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"the page is {wide[0]} wide on a screen of {wide[1]}"

    def expect_labels(self):
        """Every control has a name for a screen reader, and every figure a description."""
        unnamed = self.browser.execute_script("""
            return [...document.querySelectorAll("button, input, select, textarea, canvas, a")]
              .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() ||
                             e.closest("label") || e.getAttribute("aria-labelledby")))
              .map(e => e.outerHTML)""")
        assert unnamed == []

    def expect_accessible(self, npm):
        """Axe finds nothing: names, roles, order of headings, contrast."""
        self.browser.execute_script(
            (npm.modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        found = self.browser.execute_async_script("""
            const done = arguments[arguments.length - 1];
            axe.run().then(result => done(result.violations.map(
              one => one.id + ": " + one.nodes.map(node => node.html).join(" "))))""")
        assert found == []
