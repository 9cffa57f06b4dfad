"""The service `mcnb serve` from Python (docs/HTTP_API.md). Needs nothing but Python itself."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import socket
import ssl
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote, urlsplit

_BUSY = (429, 502, 503, 504)  # worth another try
_NOT_DONE = (429, 503)        # of these: the service itself says that it has done nothing
_LONGEST_PAUSE = 10.0         # seconds
_CONNECT_TIMEOUT = 3.0        # seconds


class ServiceError(RuntimeError):
    """The service refused a request: `status` of HTTP, `code` and `field` as in its answer."""

    def __init__(self, status: int, code: str, message: str, field: Optional[str] = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.field = field

    def __reduce__(self) -> Any:
        return ServiceError, (self.status, self.code, self.message, self.field)


@dataclass(frozen=True)
class Decision:
    """What to show, and what the reward has to name."""

    event_id: str
    action: str
    probability: float
    ranking: List[Dict[str, Any]] = field(repr=False)
    model_version: int = 0
    explain: Optional[List[Dict[str, Any]]] = field(default=None, repr=False)


class Client:
    """A connection to the service, for any number of threads.

    url      "http://localhost:8080"
    key      one of its keys, where it has such
    model    which of its models
    timeout  seconds that one try may take, from the request to the end of its answer
    retries  how often to try again where the service cannot be reached, takes too long, or says it
             is busy. An event has the same id in every try, and a reward too: each counts once
    backoff  seconds of the first pause between tries, more or less; each is twice the one before
    connect_timeout  seconds to reach the service (each of its addresses), or `timeout` if shorter
    total_timeout  seconds that a call may take, with all its tries and the pauses between; None:
             what all its tries may take, retries + 1 times `timeout`
    context  of TLS, for https with certificates of your own

    After a fork the child makes connections of its own.
    """

    def __init__(self, url: str = "http://localhost:8080", key: Optional[str] = None, *,
                 model: str = "default", timeout: float = 10.0, retries: int = 3,
                 backoff: float = 0.1, connect_timeout: float = _CONNECT_TIMEOUT,
                 total_timeout: Optional[float] = None,
                 context: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'url: expected "http://host:port" or "https://...", got {url!r}')
        for name, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout),
                              ("total_timeout", total_timeout)):
            if seconds is not None and not 0 < seconds < threading.TIMEOUT_MAX:
                raise ValueError(f"{name}: expected more than 0 seconds, got {seconds}")
        if retries < 0:
            raise ValueError(f"retries: expected at least 0, got {retries}")
        self.url = url.rstrip("/")
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self.connect_timeout = min(connect_timeout, timeout)
        self.total_timeout = (retries + 1) * timeout if total_timeout is None else total_timeout
        self._parts = parts
        self._key = key
        self._context = context
        self._local = threading.local()

    def rank(self, user: str, actions: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]], *,
             context: Any = None, event_id: Optional[str] = None, excluded: Sequence[str] = (),
             defer: bool = False, explain: bool = False) -> Decision:
        """Decides what to show to a user.

        actions   features by action's id: {"tea": {"hot": True}, "juice": [0.1, 0.9]}; or the list
                  of objects with "id" and "features" that the API has
        event_id  of your own; made up where missing, before the first try
        defer     the event counts only when it is activated
        """
        if isinstance(actions, Mapping):
            listed = [{"id": id, "features": _plain(features)} for id, features in actions.items()]
        else:
            listed = [dict(action, features=_plain(action.get("features", {})))
                      for action in actions]
        body: Dict[str, Any] = {"eventId": event_id or uuid.uuid4().hex, "userId": user,
                                "actions": listed}
        if context is not None:
            body["contextFeatures"] = _plain(context)
        if excluded:
            body["excludedActions"] = list(excluded)
        if defer:
            body["deferActivation"] = True
        if explain:
            body["explain"] = True
        answer = self.call("POST", self._path("rank"), body)
        self._check_event(answer, body["eventId"])
        action = answer["rewardActionId"]
        chance = next(one["probability"] for one in answer["ranking"] if one["id"] == action)
        return Decision(answer["eventId"], action, chance, answer["ranking"],
                        answer.get("modelVersion", 0), answer.get("explain"))

    def reward(self, event: Union[str, Decision], value: float, *,
               reward_id: Optional[str] = None) -> str:
        """Sends a reward in [0, 1]. Returns what became of it: "learned", "waiting", "duplicate",
        "ignored" or "late"."""
        body = {"value": float(value), "rewardId": reward_id or uuid.uuid4().hex}
        answer = self.call("POST", self._path("events", _event(event), "reward"), body)
        return str(answer["outcome"])

    def activate(self, event: Union[str, Decision]) -> None:
        """Makes a deferred event count."""
        self.call("POST", self._path("events", _event(event), "activate"))

    def event(self, event: Union[str, Decision]) -> Dict[str, Any]:
        """What is known of an event, with its explanation."""
        answer = dict(self.call("GET", self._path("events", _event(event))))
        self._check_event(answer, _event(event))
        return answer

    def user(self, user: str) -> Dict[str, Any]:
        """What is known of a user."""
        return dict(self.call("GET", self._path("users", user)))

    def forget(self, user: str) -> None:
        """Makes the model forget a user."""
        self.call("DELETE", self._path("users", user))

    def models(self) -> List[Dict[str, Any]]:
        """All models of the service."""
        return list(self.call("GET", "/v1/models")["models"])

    def model_info(self) -> Dict[str, Any]:
        """Settings and counts of this client's model."""
        return dict(self.call("GET", self._path()))

    def create_model(self, name: str, **settings: Any) -> "Client":
        """Makes a model (docs/HTTP_API.md lists the settings) and returns a client of it.

        Unlike other requests this one has no id: where its answer is lost it is not sent again, and
        `models` says whether the model is there.
        """
        self.call("POST", "/v1/models", {"name": name, **settings}, repeat=False)
        return self.of(name)

    def of(self, model: str) -> "Client":
        """A client of another model of the same service."""
        return Client(self.url, self._key, model=model, timeout=self.timeout,
                      retries=self.retries, backoff=self.backoff,
                      connect_timeout=self.connect_timeout, total_timeout=self.total_timeout,
                      context=self._context)

    def ready(self) -> bool:
        """Whether the service can serve now; does not try again."""
        try:
            return bool(self._try("GET", "/readyz", None, self.timeout)[0] == 200)
        except OSError:
            return False

    def close(self) -> None:
        """Ends this thread's connection; the next call opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *what: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r}, model={self.model!r})"

    def call(self, method: str, path: str, body: Any = None, *, repeat: bool = True) -> Any:
        """Any request of the API: the answer's JSON, or an error.

        repeat  whether it does no harm twice: then it is sent again where an answer was lost. Else
                only where the service has not got it, or says that it was too busy

        Raises ServiceError for what the service refuses, and ConnectionError or TimeoutError where
        no try got through.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        end = time.monotonic() + self.total_timeout
        if not repeat:
            self.close()  # the service may have ended an idle connection: one fault less
        for attempt in range(self.retries + 1):
            wait = min(self.backoff * 2**min(attempt, 20), _LONGEST_PAUSE) * (0.5 + random.random())
            try:
                status, headers, text = self._try(method, path, data, end - time.monotonic())
            except OSError as error:
                sent = not isinstance(error, _NotSent)
                last = attempt == self.retries or (sent and not repeat)
                if last or time.monotonic() + wait >= end:
                    cause = error if sent else error.__cause__
                    kind = TimeoutError if isinstance(cause, TimeoutError) else ConnectionError
                    unknown = "; whether it was done is not known" if sent and not repeat else ""
                    raise kind(f"{self.url}: {str(cause) or type(cause).__name__}, "
                               f"{attempt + 1} tries{unknown}") from cause
            else:
                if status < 300:
                    return json.loads(text) if text else {}
                wait = max(wait, _retry_after(headers))
                last = attempt == self.retries or status not in (_BUSY if repeat else _NOT_DONE)
                if last or time.monotonic() + wait >= end:
                    raise _refusal(status, text)
            time.sleep(wait)
        raise AssertionError("a try ends in an answer or an error")

    def _check_event(self, answer: Mapping[str, Any], expected: str) -> None:
        if answer.get("eventId") != expected:
            self.close()  # whatever it was, it must not meet the next request
            raise ConnectionError(f"{self.url}: expected the answer about event {expected!r}, got "
                                  f"one about {answer.get('eventId')!r}")

    def _path(self, *parts: str) -> str:
        return "/".join(["/v1/models", quote(self.model, safe=""),
                         *(quote(part, safe="") for part in parts)])

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        """This thread's connection, made within `seconds` if need be."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and self._local.process != os.getpid():
            connection = None  # the parent's, which goes on with it
        if connection is None or connection.sock is None:  # none, or the service has ended it
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                connection = http.client.HTTPSConnection(host, port, timeout=seconds,
                                                         context=self._context)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=seconds)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise _NotSent from error
            connection.sock = _TimedSocket(connection.sock)
            self._local.connection = connection
            self._local.process = os.getpid()
        return connection

    def _try(self, method: str, path: str, data: Optional[bytes], seconds: float) -> Any:
        """One request. Raises OSError where no whole answer came."""
        end = time.monotonic() + min(self.timeout, max(seconds, 0.001))
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if method == "POST" and data is None:
            data = b""
        if self._key is not None:
            headers["X-API-Key"] = self._key
        connection = self._connection(min(self.connect_timeout, end - time.monotonic()))
        try:
            connection.sock.end = end  # type: ignore[union-attr]
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if isinstance(error, OSError):
                raise
            raise ConnectionError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()  # an answer that nobody reads must not meet the next request
            raise


class _NotSent(OSError):
    """The service could not be reached; the cause says why."""


class _TimedSocket:
    """A socket whose every step has to be done by `end`, as http.client uses it."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self.end = 0.0

    def use_time_left(self) -> None:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._inner.settimeout(left)

    def sendall(self, data: Any) -> None:
        self.use_time_left()
        self._inner.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._inner.makefile("rb", buffering=0)))

    def close(self) -> None:
        self._inner.close()


class _TimedReader(io.RawIOBase):
    """Reads for a _TimedSocket, whose end may come between any two pieces."""

    def __init__(self, socket: _TimedSocket, inner: Any) -> None:
        self._socket = socket
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._socket.use_time_left()
        return self._inner.readinto(buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


def _event(event: Union[str, Decision]) -> str:
    return event.event_id if isinstance(event, Decision) else event


def _plain(features: Any) -> Any:
    """NumPy's arrays and numbers as JSON has them."""
    if isinstance(features, Mapping):
        return {name: _plain(value) for name, value in features.items()}
    if hasattr(features, "tolist"):
        return features.tolist()
    if isinstance(features, (list, tuple)):
        return [_plain(value) for value in features]
    return features


def _retry_after(headers: Any) -> float:
    try:
        return min(max(float(headers.get("Retry-After", 0)), 0.0), _LONGEST_PAUSE)
    except ValueError:
        return 0.0


def _refusal(status: int, text: bytes) -> ServiceError:
    try:
        error = json.loads(text)["error"]
        return ServiceError(status, error["code"], error["message"], error.get("field"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unknown", text.decode(errors="replace")[:200])
