#!/usr/bin/env python3
"""Times the dashboard's map of users in Chromium.

Every user gets a decision and a reward of the real service. Then this prints how long the map takes
to be made, how long the page takes to draw it again when the mouse comes to another user, and how
long the browser takes from frame to frame meanwhile. Needs the packages of the section `pages` of
./packages.
"""

import argparse
import base64
import http.client
import json
import math
import random
import re
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

MODEL = {"name": "map", "policy": "hierarchical", "dimension": 8, "waitingSeconds": 3600}


def ask(connection, path, body=None):
    method = "GET" if body is None else "POST"
    connection.request(method, path, None if body is None else json.dumps(body),
                       {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def teach(port, users):
    """One decision and one reward of each user, whose taste is a direction of their own."""
    connection = http.client.HTTPConnection("localhost", port)
    for user in users:
        draw = random.Random(user)
        taste = draw.uniform(0, 2 * math.pi)
        event = f"e{user}"
        angles = [draw.uniform(0, 2 * math.pi) for _ in range(6)]
        answer = ask(connection, "/v1/models/map/rank", {
            "eventId": event, "userId": f"u{user}",
            "actions": [{"id": f"a{i}", "features": {"x": math.cos(angle), "y": math.sin(angle)}}
                        for i, angle in enumerate(angles)]})
        angle = angles[int(answer["rewardActionId"][1:])]
        ask(connection, f"/v1/models/map/events/{event}/reward",
            {"value": (1 + math.cos(angle - taste)) / 2})


# Moves the mouse once in every frame. Returns the milliseconds of drawing where another user came
# under the mouse, and those between frames.
MOVE = """
    const done = arguments[arguments.length - 1];
    const canvas = document.querySelector(".map canvas");
    canvas.scrollIntoView({block: "center"});
    const words = document.querySelector(".map + .note");
    const drawn = [], frames = [];
    let last = performance.now(), moves = 0;
    const step = (now) => {
      frames.push(now - last);
      last = now;
      const box = canvas.getBoundingClientRect();
      const before = words.textContent;
      const begin = performance.now();
      canvas.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + box.width * (0.3 + 0.4 * ((moves * 37) % 120) / 120),
        clientY: box.top + box.height * (0.3 + 0.4 * ((moves * 23) % 120) / 120)}));
      if (words.textContent !== before) drawn.push(performance.now() - begin);
      if (++moves < 120) requestAnimationFrame(step); else done([drawn, frames.slice(2)]);
    };
    requestAnimationFrame(step);"""


def open_browser(folder):
    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage",
                     "window-size=1400,1000", f"user-data-dir={folder}/browser"):
        options.add_argument("--" + argument)
    return webdriver.Chrome(service=Driver("/usr/bin/chromedriver"), options=options)


def measure(port, users, folder, picture):
    connection = http.client.HTTPConnection("localhost", port)
    begin = time.monotonic()
    points = len(ask(connection, "/v1/models/map/map")["learners"])
    made = time.monotonic() - begin
    assert points == users, f"the map has {points} users"
    browser = open_browser(folder)
    try:
        begin = time.monotonic()
        browser.get(f"http://localhost:{port}/#/models/map")
        main = browser.find_element(By.TAG_NAME, "main")
        WebDriverWait(browser, 120, 0.02).until(lambda _: "users who have learned" in main.text)
        shown = time.monotonic() - begin
        drawn, frames = browser.execute_async_script(MOVE)
        assert drawn, "no user came under the mouse"
        if picture:
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
            picture.write_bytes(base64.b64decode(shot["data"]))
    finally:
        browser.quit()
    print(f"{users} users: the map is made and sent in {made:.2f} s, the whole page shown in "
          f"{shown:.2f} s; drawing it for another user takes {statistics.median(drawn):.1f} ms "
          f"(median of {len(drawn)}, at most {max(drawn):.1f}), a frame meanwhile "
          f"{statistics.median(frames):.1f} ms (at most {max(frames):.1f})")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mcnb", type=Path, default=Path("build/release/mcnb"))
    arguments.add_argument("--users", type=int, default=100_000)
    arguments.add_argument("--picture", type=Path, help="PNG file of the map at the end")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with open(log, "w", encoding="utf-8") as errors:
            service = subprocess.Popen([given.mcnb, "serve", "--data", f"{folder}/data",
                                        "--port", "0", "--request-lines", "0"], stderr=errors)
        try:
            while not (found := re.search(r'"listening".*"port":"(\d+)"', log.read_text())):
                assert service.poll() is None, log.read_text()
                time.sleep(0.01)
            port = int(found[1])
            ask(http.client.HTTPConnection("localhost", port), "/v1/models", MODEL)
            shares = [range(i, given.users, 32) for i in range(32)]
            threads = [threading.Thread(target=teach, args=(port, share)) for share in shares]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            measure(port, given.users, folder, given.picture)
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
