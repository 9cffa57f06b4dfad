"""The real service for tests of the page and of clients, and requests to it."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

BINARY = os.environ["MCNB_BINARY"]


class Service:
    """`mcnb serve` on a folder; on any free port, or on the port of an earlier run."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0):
        self.log = open(folder / "service.log", "a+", encoding="utf-8")
        begin = self.log.seek(0, os.SEEK_END)
        command = [BINARY, "serve", "--data", str(folder / "data"), "--port", str(port), *arguments]
        self.process = subprocess.Popen(command, stderr=self.log)
        while True:
            self.log.seek(begin)
            found = re.search(r'"listening".*"port":"(\d+)"', self.log.read())
            if found:
                break
            assert self.process.poll() is None, "the service ended"
            time.sleep(0.01)
        self.port = int(found[1])
        self.url = f"http://localhost:{self.port}"

    def ask(self, method: str, path: str, body=None, key: str = ""):
        """Sends a request and returns the JSON of its answer, if there is any."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Content-Type", "application/json")
        if key:
            request.add_header("X-API-Key", key)
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else text

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait(30)


def play(service: Service, model: str, users: int, rounds: int, key: str = ""):
    """Users of two tastes decide and are rewarded. Returns the ids of the events."""
    events = []
    for i in range(rounds):
        user = f"user-{i % users}"
        event = f"{model}-{i}"
        answer = service.ask("POST", f"/v1/models/{model}/rank", {
            "eventId": event, "userId": user, "contextFeatures": {"hour": (i % 24) / 24},
            "actions": [{"id": name, "features": {"kind": name}}
                        for name in ("tea", "bread", "butter", "salt")]}, key)
        liked = "tea" if (i % users) % 2 else "bread"
        if answer["rewardActionId"] == liked or i % 7 == 0:
            service.ask("POST", f"/v1/models/{model}/events/{event}/reward", {"value": 1}, key)
        events.append(event)
    return events
