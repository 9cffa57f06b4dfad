#!/usr/bin/env python3
"""Times the dashboard's map of users in Chromium.

Every user gets a decision and a reward of the real service. Then this prints how long the map takes
to be made, and how long the page takes to draw it again when the mouse moves. Needs the packages of
the section `pages` of ./packages.
"""

import argparse
import http.client
import json
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
    """One decision and one reward of each user."""
    connection = http.client.HTTPConnection("localhost", port)
    for user in users:
        event = f"e{user}"
        answer = ask(connection, "/v1/models/map/rank", {
            "eventId": event, "userId": f"u{user}",
            "actions": [{"id": f"a{i}", "features": {f"f{i}": 1}} for i in range(6)]})
        liked = int(answer["rewardActionId"][1:]) % 3 == user % 3
        ask(connection, f"/v1/models/map/events/{event}/reward", {"value": int(liked)})


def open_browser(folder):
    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage",
                     "window-size=1400,1000", f"user-data-dir={folder}/browser"):
        options.add_argument("--" + argument)
    return webdriver.Chrome(service=Driver("/usr/bin/chromedriver"), options=options)


def measure(port, users, folder):
    connection = http.client.HTTPConnection("localhost", port)
    begin = time.monotonic()
    points = len(ask(connection, "/v1/models/map/map")["learners"])
    made = time.monotonic() - begin
    assert points == users, f"the map has {points} users"
    browser = open_browser(folder)
    try:
        browser.get(f"http://localhost:{port}/#/models/map")
        main = browser.find_element(By.TAG_NAME, "main")
        WebDriverWait(browser, 120).until(lambda _: "users who have learned" in main.text)
        drawn = browser.execute_script("""
            const canvas = document.querySelector(".map canvas");
            const box = canvas.getBoundingClientRect();
            const times = [];
            for (let i = 0; i < 60; ++i) {
              const begin = performance.now();
              canvas.dispatchEvent(new PointerEvent("pointermove", {
                clientX: box.left + box.width * (0.2 + 0.6 * ((i * 37) % 60) / 60),
                clientY: box.top + box.height * (0.2 + 0.6 * ((i * 23) % 60) / 60)}));
              times.push(performance.now() - begin);
            }
            return times;""")
    finally:
        browser.quit()
    print(f"{users} users: the map is made and sent in {made:.2f} s; it is drawn again in "
          f"{statistics.median(drawn):.1f} ms (median of {len(drawn)}), at most {max(drawn):.1f}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mcnb", type=Path, default=Path("build/release/mcnb"))
    arguments.add_argument("--users", type=int, default=100_000)
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
            measure(port, given.users, folder)
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
