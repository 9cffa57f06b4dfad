"""The service `mcnb serve` from Python (docs/HTTP_API.md). Needs nothing but Python itself."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote, urlsplit

_BUSY = (429, 502, 503, 504)  # worth another try
_LONGEST_PAUSE = 10.0         # seconds


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
    timeout  seconds for every single try
    retries  how often to try again where the service cannot be reached, takes too long, or says it
             is busy. An event has the same id in every try, and a reward too: each counts once
    context  of TLS, for https with certificates of your own
    """

    def __init__(self, url: str = "http://localhost:8080", key: Optional[str] = None, *,
                 model: str = "default", timeout: float = 10.0, retries: int = 3,
                 backoff: float = 0.1, context: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'url: expected "http://host:port" or "https://...", got {url!r}')
        if not timeout > 0:
            raise ValueError(f"timeout: expected more than 0 seconds, got {timeout}")
        if retries < 0:
            raise ValueError(f"retries: expected at least 0, got {retries}")
        self.url = url.rstrip("/")
        self.model = model
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
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
        return dict(self.call("GET", self._path("events", _event(event))))

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
        """Makes a model (docs/HTTP_API.md lists the settings) and returns a client of it."""
        self.call("POST", "/v1/models", {"name": name, **settings})
        return self.of(name)

    def of(self, model: str) -> "Client":
        """A client of another model of the same service."""
        return Client(self.url, self._key, model=model, timeout=self.timeout,
                      retries=self.retries, backoff=self.backoff, context=self._context)

    def ready(self) -> bool:
        """Whether the service can serve now; does not try again."""
        try:
            return bool(self._try("GET", "/readyz", None)[0] == 200)
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

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Any request of the API: the answer's JSON, or an error.

        Raises ServiceError for what the service refuses, and ConnectionError or TimeoutError where
        no try got through.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            wait = min(self.backoff * 2**attempt * (0.5 + random.random()), _LONGEST_PAUSE)
            try:
                status, headers, text = self._try(method, path, data)
            except OSError as error:
                if last:
                    kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionError
                    raise kind(f"{self.url}: {error or type(error).__name__}, "
                               f"{attempt + 1} tries") from error
            else:
                if status < 300:
                    return json.loads(text) if text else {}
                if status not in _BUSY or last:
                    raise _refusal(status, text)
                wait = max(wait, _retry_after(headers))
            time.sleep(wait)
        raise AssertionError("a try ends in an answer or an error")

    def _path(self, *parts: str) -> str:
        return "/".join(["/v1/models", quote(self.model, safe=""),
                         *(quote(part, safe="") for part in parts)])

    def _connection(self) -> http.client.HTTPConnection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                connection = http.client.HTTPSConnection(host, port, timeout=self.timeout,
                                                         context=self._context)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=self.timeout)
            self._local.connection = connection
        return connection

    def _try(self, method: str, path: str, data: Optional[bytes]) -> Any:
        """One request. Raises OSError where no whole answer came."""
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if method == "POST" and data is None:
            data = b""
        if self._key is not None:
            headers["X-API-Key"] = self._key
        connection = self._connection()
        try:
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
