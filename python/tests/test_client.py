"""mcnb.Client against the real `mcnb serve`."""

import contextlib
import os
import re
import socket
import ssl
import subprocess
import threading
import time

import numpy as np
import pytest

import mcnb

ACTIONS = {"tea": {"hot": True}, "juice": {"sweet": np.float32(0.5), "tags": ["cold", "fruit"]}}


class Interrupted:
    """A proxy that loses the first answers: the service sends them, the client gets nothing."""

    def __init__(self, port, losses, answer=None):
        self.losses = losses
        self.answer = answer
        self.requests = []
        self.connections = 0
        self._port = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                inner = self._socket.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._pass_on, args=(inner,), daemon=True).start()

    def _pass_on(self, inner):
        with inner:
            while request := self._read(inner):
                self.requests.append(request)
                with socket.create_connection(("127.0.0.1", self._port)) as outer:
                    outer.sendall(request)
                    answer = self._read(outer)
                if self.losses > 0:
                    self.losses -= 1
                    if self.answer is None:
                        break
                    answer = self.answer
                inner.sendall(answer)

    @staticmethod
    def _read(connection):
        """Reads one HTTP request or response."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.I)
        while length and len(body) < int(length[1]):
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()


def test_a_loop_of_rank_and_reward(serving):
    with mcnb.Client(serving().url) as client:
        assert client.ready()
        liked = []
        for i in range(60):
            decision = client.rank(f"user-{i % 2}", ACTIONS, context={"hour": 0.5})
            assert decision.action in ACTIONS and 0 < decision.probability <= 1
            assert {one["id"] for one in decision.ranking} == set(ACTIONS)
            reward = (decision.action == "tea") == (i % 2 == 0)
            assert client.reward(decision, reward) == "learned"
            liked.append(reward)
        info = client.model_info()
        assert info["rounds"] == 60 and info["counts"]["learned"] == 60 and info["users"] == 2
        assert client.user("user-1")["decisions"] == 30


def test_everything_the_api_has(serving):
    client = mcnb.Client(serving().url)
    dense = client.create_model("dense", dimension=3, policy="linucb", epsilon=0.0)
    assert [model["name"] for model in client.models()] == ["default", "dense"]
    decision = dense.rank("ann/b", [{"id": "a", "features": np.eye(3)[0]},
                                    {"id": "b c", "features": [0, 1, 0]}],
                          event_id="visit 1/2", excluded=["a"], defer=True, explain=True)
    assert decision.event_id == "visit 1/2" and decision.action == "b c"
    assert decision.probability == 1.0 and decision.explain[0]["id"] == "b c"
    assert dense.reward(decision, 1) == "waiting"
    dense.activate(decision)
    assert dense.event("visit 1/2")["waiting"] is False
    assert dense.reward("visit 1/2", 0.5) == "ignored"
    assert dense.user("ann/b")["learned"] == 1
    dense.forget("ann/b")
    with pytest.raises(mcnb.ServiceError, match="404 unknown_user"):
        dense.user("ann/b")
    assert repr(dense) == f"Client('{client.url}', model='dense')"


def test_models_can_be_changed_and_deleted(serving):
    client = mcnb.Client(serving().url)
    shop = client.create_model("shop", dimension=3)
    assert shop.change_model(epsilon=0.25)["epsilon"] == 0.25
    assert shop.snapshot()["model"] == "shop"
    assert client.back_up("monday") == "backups/monday"
    assert client.reload() == {"keys": 0, "tls": False}
    with pytest.raises(mcnb.ServiceError, match="409 backup_exists"):
        client.back_up("monday")
    shop.delete_model()
    assert [model["name"] for model in client.models()] == ["default"]


# The endpoints that need no method of the client.
NOT_IN_THE_CLIENT = {
    ("get", "/"),  # the dashboard and what it shows
    ("get", "/page.js"),
    ("get", "/page.css"),
    ("get", "/docs"),
    ("get", "/docs.js"),
    ("get", "/v1/series"),
    ("get", "/v1/live"),
    ("get", "/v1/models/{model}/series"),
    ("get", "/v1/models/{model}/map"),
    ("get", "/v1/models/{model}/events"),
    ("get", "/v1/models/{model}/users/{id}/events"),
    ("get", "/v1/models/{model}/users/{id}/estimates"),
    ("get", "/v1/models/{model}/settings"),
    ("get", "/v1/models/{model}/log"),  # a stream, for curl
    ("get", "/v1/models/{model}/events/{id}/behind"),
    ("post", "/v1/models/{model}/try"),
    ("get", "/livez"),  # for supervisors of processes; `ready` says more
    ("get", "/metrics"),  # for Prometheus
    ("get", "/v1/nodes"),  # for administrators
    ("get", "/openapi.json"),  # for generators of clients
}


def test_the_client_has_a_method_for_every_endpoint(serving):
    """Calls every method and compares the requests with the paths of the OpenAPI document."""
    server = serving()
    between = Interrupted(server.port, losses=0)
    client = mcnb.Client(between.url).create_model("MODEL", dimension=2)
    client.ready()
    client.models()
    client.model_info()
    client.rank("ann", ACTIONS, event_id="ID", defer=True)
    client.reward("ID", 1)
    client.activate("ID")
    client.event("ID")
    client.rank("ID", ACTIONS)
    client.user("ID")
    client.forget("ID")
    client.change_model(epsilon=0)
    client.add_challenger("linear", "linucb")
    promoted = client.promote("linear", keep_as="ID")
    assert promoted["policy"] == "linucb"
    assert [one["name"] for one in promoted["challengers"]] == ["ID"]
    client.remove_challenger("ID")
    assert client.model_info()["challengers"] == []
    client.upload(b"content")
    with pytest.raises(mcnb.ServiceError, match="404 unknown_upload"):
        client.remove_upload("ID")
    client.snapshot()
    client.back_up("copy")
    client.reload()
    client.delete_model()
    between.close()
    sent = set()
    for request in between.requests:
        method, path = request.split(b" ")[:2]
        path = path.decode().replace("MODEL", "{model}").replace("ID", "{id}")
        sent.add((method.decode().lower(), path))
    paths = mcnb.Client(server.url).call("GET", "/openapi.json")["paths"]
    endpoints = {(method, path) for path, operations in paths.items()
                 for method in operations if method != "parameters"}
    endpoints = {one for one in endpoints if not one[1].startswith("/personalizer/")}
    assert NOT_IN_THE_CLIENT <= endpoints
    assert sent == endpoints - NOT_IN_THE_CLIENT


def test_what_the_service_refuses_says_why(serving):
    client = mcnb.Client(serving().url)
    with pytest.raises(mcnb.ServiceError) as refusal:
        client.rank("ann", {"a": {}}, excluded=["a"])
    assert refusal.value.status == 400 and refusal.value.code == "bad_field"
    assert refusal.value.field == "excludedActions"
    with pytest.raises(mcnb.ServiceError, match="404 unknown_event"):
        client.reward("nothing", 1)
    with pytest.raises(mcnb.ServiceError, match="404 unknown_model"):
        client.of("other").rank("ann", ACTIONS)
    with pytest.raises(ValueError, match="JSON"):
        client.rank("ann", {"a": [np.nan]})


def test_lost_answers_are_asked_for_again_with_the_same_ids(serving):
    server = serving()
    between = Interrupted(server.port, losses=2)
    client = mcnb.Client(between.url, backoff=0.001)
    decision = client.rank("ann", ACTIONS)
    assert between.losses == 0 and len(between.requests) == 3
    ids = {re.search(rb'"eventId": "(\w+)"', request)[1] for request in between.requests}
    assert ids == {decision.event_id.encode()}

    between.requests.clear()
    between.losses = 1
    assert client.reward(decision, 1) == "duplicate"  # the try with the lost answer was learned
    ids = {re.search(rb'"rewardId": "(\w+)"', request)[1] for request in between.requests}
    assert len(between.requests) == 2 and len(ids) == 1
    info = mcnb.Client(server.url).model_info()
    assert info["rounds"] == 1 and info["counts"]["learned"] == 1
    between.close()


def test_a_busy_service_is_asked_again(serving):
    busy = (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 58\r\n\r\n"
            b'{"error": {"code": "overloaded", "message": "come later"}}')
    between = Interrupted(serving().port, losses=2, answer=busy)
    client = mcnb.Client(between.url, backoff=0.001)
    assert client.rank("ann", ACTIONS).action in ACTIONS
    assert len(between.requests) == 3
    between.losses = 5
    with pytest.raises(mcnb.ServiceError, match="503 overloaded: come later"):
        client.rank("ann", ACTIONS)
    assert between.losses == 1
    between.close()


def test_silence_ends_in_a_time_out():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = mcnb.Client(url, timeout=0.05, retries=1, backoff=0.001)
        with pytest.raises(TimeoutError, match="2 tries"):
            client.rank("ann", ACTIONS)
        assert client.ready() is False
    with pytest.raises(ConnectionError, match="2 tries"):
        client.rank("ann", ACTIONS)
    with pytest.raises(ValueError, match="url"):
        mcnb.Client("localhost:8080")
    for name in ("timeout", "connect_timeout", "total_timeout"):
        for seconds in (0, -1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"^{name}: expected more than 0 seconds, got"):
                mcnb.Client(**{name: seconds})
    with pytest.raises(ValueError, match="retries"):
        mcnb.Client(retries=-1)


@contextlib.contextmanager
def answering(pieces, pause=0.0, connections=None):
    """A service that sends the pieces of an answer, with pauses between them, to every request. The
    real one never does such things."""
    listening = socket.create_server(("127.0.0.1", 0))

    def talk(inner):
        with inner, contextlib.suppress(OSError):
            while Interrupted._read(inner):
                for piece in pieces:
                    time.sleep(pause)
                    inner.sendall(piece)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                inner = listening.accept()[0]
                if connections is not None:
                    connections.append(inner)
                threading.Thread(target=talk, args=(inner,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    with listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def http_answer(body, status=b"200 OK", more=b""):
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, more, len(body), body)


@pytest.mark.parametrize("whole", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b" " * 100,
    b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(90)),
], ids=["body", "head"])
def test_an_answer_that_comes_drop_by_drop_ends_in_a_time_out(whole):
    """Every byte comes in time; all of them together would take ten times as long."""
    drops = [bytes([byte]) for byte in whole]
    with answering(drops, pause=0.02) as url:
        client = mcnb.Client(url, timeout=0.2, retries=0)
        with pytest.raises(TimeoutError, match="1 tries"):
            client.models()


def test_a_call_with_all_its_tries_has_an_end():
    busy = http_answer(b'{"error": {"code": "overloaded", "message": "later"}}',
                       b"503 Service Unavailable")
    waiting = http_answer(b'{"error": {"code": "overloaded", "message": "later"}}',
                          b"503 Service Unavailable", b"Retry-After: 9\r\n")
    with answering([busy]) as url:  # a pause of half a second at least does not fit
        client = mcnb.Client(url, retries=1000, backoff=1, total_timeout=0.3)
        with pytest.raises(mcnb.ServiceError, match="503 overloaded"):
            client.models()
    with answering([waiting]) as url:
        client = mcnb.Client(url, retries=1000, backoff=0.001, total_timeout=5)
        with pytest.raises(mcnb.ServiceError, match="503 overloaded"):
            client.models()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = mcnb.Client(url, timeout=60, retries=1000, backoff=0.001, total_timeout=0.2)
        with pytest.raises(TimeoutError, match="1 tries"):  # the try had 0.2 of its 60 seconds
            client.models()
    assert mcnb.Client(timeout=2, retries=4).total_timeout == 10
    assert mcnb.Client(timeout=2).connect_timeout == 2
    assert mcnb.Client().connect_timeout == 3
    other = mcnb.Client(timeout=2, total_timeout=3, connect_timeout=1).of("other")
    assert (other.timeout, other.total_timeout, other.connect_timeout) == (2, 3, 1)


def test_a_service_that_cannot_be_reached_has_its_own_time_out():
    """If the queue of connections is full, new ones are neither accepted nor refused."""
    with socket.socket() as full, contextlib.ExitStack() as queue:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            one = queue.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        client = mcnb.Client(url, timeout=3600, connect_timeout=0.1, retries=0)
        with pytest.raises(TimeoutError, match="1 tries"):
            client.models()


def test_an_answer_about_another_event_is_refused():
    body = (b'{"eventId": "other", "rewardActionId": "tea", "modelVersion": 0,'
            b' "ranking": [{"id": "tea", "probability": 1.0}]}')
    connections = []
    with answering([http_answer(body)], connections=connections) as url:
        client = mcnb.Client(url)
        assert client.rank("ann", ACTIONS, event_id="other").action == "tea"
        for call in (lambda: client.rank("ann", ACTIONS, event_id="mine"),
                     lambda: client.event("mine")):
            with pytest.raises(ConnectionError, match="event 'mine', got one for 'other'"):
                call()
    assert len(connections) == 2, "what came is not trusted any longer"


def test_a_connection_that_the_service_ends_is_made_anew():
    connections = []
    last = http_answer(b'{"models": []}', more=b"Connection: close\r\n")
    with answering([last], connections=connections) as url:
        client = mcnb.Client(url, retries=0)
        assert client.models() == [] and client.models() == []
    assert len(connections) == 2


def test_a_child_process_has_connections_of_its_own(serving):
    between = Interrupted(serving().port, losses=0)
    client = mcnb.Client(between.url, retries=0)
    client.rank("ann", ACTIONS)
    client.rank("ann", ACTIONS)
    assert between.connections == 1
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.rank("bob", ACTIONS)
            client.close()
            os.write(write, b"served")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"served"
    os.waitpid(child, 0)
    assert between.connections == 2
    client.rank("ann", ACTIONS)
    assert between.connections == 2, "the parent's connection lives on"
    between.close()


def test_a_model_is_not_made_twice(serving):
    server = serving()
    between = Interrupted(server.port, losses=1)
    client = mcnb.Client(between.url, backoff=0.001)
    with pytest.raises(ConnectionError, match="1 tries; whether it was done is not known"):
        client.create_model("shop", dimension=3)
    assert len(between.requests) == 1
    assert [model["name"] for model in client.models()] == ["default", "shop"]
    between.answer = http_answer(b'{"error": {"code": "overloaded", "message": "come later"}}',
                                 b"503 Service Unavailable")
    between.losses = 1
    with pytest.raises(mcnb.ServiceError, match="409 model_exists"):
        client.create_model("shop")
    assert between.losses == 0, "a service that was busy is asked again"
    between.close()
    with pytest.raises(ConnectionError, match="4 tries$"):  # no request reached the service
        client.create_model("other")


def test_a_server_that_comes_back_is_found_again(serving):
    server = serving()
    client = mcnb.Client(server.url, backoff=0.001)
    client.rank("ann", ACTIONS)
    server.stop()
    again = serving(port=server.port)
    assert client.rank("ann", ACTIONS).action in ACTIONS
    assert again.port == server.port


def test_keys_are_sent(serving, program, tmp_path):
    made = subprocess.run([program, "serve", "--new-key", "decide"], capture_output=True,
                          text=True, check=True).stdout
    config = tmp_path / "serve.toml"
    config.write_text(made)
    key = re.search(r"stored nowhere else: (\S+)", made)[1]
    server = serving("--config", str(config))
    assert mcnb.Client(server.url, key).rank("ann", ACTIONS).action in ACTIONS
    with pytest.raises(mcnb.ServiceError, match="401 no_key"):
        mcnb.Client(server.url).rank("ann", ACTIONS)
    with pytest.raises(mcnb.ServiceError, match="403 not_allowed"):
        mcnb.Client(server.url, key).create_model("more")


def test_certificates_are_checked(serving, tmp_path):
    certificate, secret = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                    str(secret), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, capture_output=True)
    server = serving("--certificate", str(certificate), "--private-key", str(secret))
    url = server.url.replace("http:", "https:")
    trusting = ssl.create_default_context(cafile=str(certificate))
    assert mcnb.Client(url, context=trusting).rank("ann", ACTIONS).action in ACTIONS
    with pytest.raises(ConnectionError, match="certificate"):
        mcnb.Client(url, retries=0).rank("ann", ACTIONS)


def test_threads_share_a_client(serving):
    client = mcnb.Client(serving().url)
    actions = []

    def work(user):
        for _ in range(10):
            decision = client.rank(user, ACTIONS)
            client.reward(decision, 1)
            actions.append(decision.action)

    threads = [threading.Thread(target=work, args=(f"user-{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actions) == 40 and client.model_info()["rounds"] == 40
