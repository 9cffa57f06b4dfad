"""A client of the service `mcnb serve` (docs/HTTP_API.md). Needs only Python's standard library."""

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

_BUSY = (429, 502, 503, 504)  # statuses that are worth another try
_NOT_DONE = (429, 503)        # statuses by which the service says that it did nothing
_LONGEST_PAUSE = 10.0         # seconds
_CONNECT_TIMEOUT = 3.0        # seconds


class ServiceError(RuntimeError):
    """The service refused a request: `status` of HTTP, `code` and `field` as in its response."""

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
    """The action to show, and the event id that the reward needs."""

    event_id: str
    action: str
    probability: float
    ranking: List[Dict[str, Any]] = field(repr=False)
    model_version: int = 0
    explain: Optional[List[Dict[str, Any]]] = field(default=None, repr=False)


@dataclass(frozen=True)
class SlotDecision:
    """The action to show in one slot. `probability` is that given the slots before it."""

    slot: str
    action: str
    probability: float
    ranking: List[Dict[str, Any]] = field(repr=False)
    explain: Optional[List[Dict[str, Any]]] = field(default=None, repr=False)


@dataclass(frozen=True)
class SlotDecisions:
    """The actions for all slots, and the event id that the rewards need."""

    event_id: str
    slots: List[SlotDecision]
    model_version: int = 0


class Client:
    """A client of one model of the service. Any number of threads may share it.

    url      "http://localhost:8080"
    key      API key, if the service has keys
    model    name of the model
    timeout  seconds that one attempt may take, from the request to the end of its response
    retries  how often to try again if the service cannot be reached, takes too long, or says that
             it is busy. All attempts send the same event id or reward id, so each counts once
    backoff  seconds of the first pause between attempts, on average; each later pause doubles
    connect_timeout  seconds to reach each address of the service, or `timeout` if that is shorter
    total_timeout  seconds that a call may take with all its attempts and pauses; None means
             (retries + 1) * timeout
    context  TLS context, for https with certificates of your own

    After a fork the child opens its own connections.
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

        actions   features by the action's id: {"tea": {"hot": True}, "juice": [0.1, 0.9]}; or a
                  list of objects with "id" and "features", as in the API
        event_id  an id of your own; None means a random one, the same in all attempts
        excluded  ids of actions that must not be chosen
        defer     if true, the event counts only after `activate`
        explain   if true, the decision explains the scores
        """
        response = self._rank({}, user, actions, context, event_id, excluded, defer, explain)
        action = response["rewardActionId"]
        chance = next(one["probability"] for one in response["ranking"] if one["id"] == action)
        return Decision(response["eventId"], action, chance, response["ranking"],
                        response.get("modelVersion", 0), response.get("explain"))

    def rank_slots(self, user: str,
                   actions: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]],
                   slots: Union[int, Sequence[Mapping[str, Any]]], *,
                   context: Any = None, event_id: Optional[str] = None,
                   excluded: Sequence[str] = (), defer: bool = False,
                   explain: bool = False) -> SlotDecisions:
        """Decides what to show in several slots of a page, such as
        rank_slots("ann", actions, [{"id": "top", "features": {"size": "large"}}, {"id": "side"}]).

        slots  objects with "id" and perhaps "features", "excludedActions" and "baselineAction"; or
               how many actions are wanted. Everything else is as in `rank`
        """
        wanted = slots if isinstance(slots, int) else [
            dict(slot, features=_plain(slot["features"])) if "features" in slot else dict(slot)
            for slot in slots]
        response = self._rank({"slots": wanted}, user, actions, context, event_id, excluded, defer,
                              explain)
        return SlotDecisions(
            response["eventId"],
            [SlotDecision(slot["id"], slot["rewardActionId"], slot["probability"], slot["ranking"],
                          slot.get("explain")) for slot in response["slots"]],
            response.get("modelVersion", 0))

    def _rank(self, body: Dict[str, Any], user: str,
              actions: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]], context: Any,
              event_id: Optional[str], excluded: Sequence[str], defer: bool,
              explain: bool) -> Any:
        if isinstance(actions, Mapping):
            listed = [{"id": id, "features": _plain(features)} for id, features in actions.items()]
        else:
            listed = [dict(action, features=_plain(action.get("features", {})))
                      for action in actions]
        body.update(eventId=event_id or uuid.uuid4().hex, userId=user, actions=listed)
        if context is not None:
            body["contextFeatures"] = _plain(context)
        if excluded:
            body["excludedActions"] = list(excluded)
        if defer:
            body["deferActivation"] = True
        if explain:
            body["explain"] = True
        response = self.call("POST", self._path("rank"), body)
        self._check_event(response, body["eventId"])
        return response

    def reward(self, event: Union[str, Decision, SlotDecisions], value: float, *,
               slot: Optional[str] = None, reward_id: Optional[str] = None) -> str:
        """Sends a reward in [0, 1], of one slot if the event has several. Returns its outcome:
        "learned", "waiting", "duplicate", "ignored" or "late"."""
        body = {"value": float(value), "rewardId": reward_id or uuid.uuid4().hex}
        if slot is not None:
            body["slot"] = slot
        response = self.call("POST", self._path("events", _event(event), "reward"), body)
        return str(response["outcome"])

    def activate(self, event: Union[str, Decision, SlotDecisions]) -> None:
        """Says that the actions of a deferred event were shown: the event counts from now on.
        Raises ServiceError (410) if its waiting time is over."""
        self.call("POST", self._path("events", _event(event), "activate"))

    def event(self, event: Union[str, Decision, SlotDecisions]) -> Dict[str, Any]:
        """Returns what the model knows about an event, with its explanation."""
        response = dict(self.call("GET", self._path("events", _event(event))))
        self._check_event(response, _event(event))
        return response

    def user(self, user: str) -> Dict[str, Any]:
        """Returns what the model knows about a user."""
        return dict(self.call("GET", self._path("users", user)))

    def forget(self, user: str) -> None:
        """Makes the model forget a user."""
        self.call("DELETE", self._path("users", user))

    def models(self) -> List[Dict[str, Any]]:
        """Lists all models of the service."""
        return list(self.call("GET", "/v1/models")["models"])

    def model_info(self) -> Dict[str, Any]:
        """Returns the options and counts of this client's model."""
        return dict(self.call("GET", self._path()))

    def create_model(self, name: str, *, start: Optional[str] = None,
                     **settings: Any) -> "Client":
        """Creates a model (docs/HTTP_API.md lists the settings) and returns a client of it. It
        begins with what `start` has learned: another model of the service, or what `upload`
        returned.

        This request has no id. If its response is lost, the client does not send it again; `models`
        then says whether the model exists.
        """
        body = {"name": name, **settings}
        if start is not None:
            body["from"] = start
        self.call("POST", "/v1/models", body, repeat=False)
        return self.of(name)

    def upload(self, content: Union[bytes, str, "os.PathLike[str]"]) -> str:
        """Sends a file that `mcnb train` saved, or a log, and returns its name, from which models
        can be created for an hour. `content` is a path, or the bytes themselves."""
        if not isinstance(content, bytes):
            with open(content, "rb") as file:
                content = file.read()
        return str(self.call("POST", "/v1/uploads", content)["upload"])

    def remove_upload(self, name: str) -> None:
        """Drops what `upload` has sent."""
        self.call("DELETE", "/v1/uploads/" + quote(name, safe=""))

    def change_model(self, **settings: Any) -> Dict[str, Any]:
        """Changes settings of this client's model, such as epsilon=0.2. Returns what `model_info`
        returns."""
        return dict(self.call("PATCH", self._path(), settings))

    def delete_model(self) -> None:
        """Deletes this client's model and its log. Does not send the request again if its response
        is lost."""
        self.call("DELETE", self._path(), repeat=False)

    def add_challenger(self, name: str, policy: str, **settings: Any) -> Dict[str, Any]:
        """Adds a policy that learns beside the one of this client's model and never answers, such
        as add_challenger("linear", "linucb", options={"alpha": 0.2}). Returns what `model_info`
        returns. Does not send the request again if its response is lost."""
        body = {"name": name, "policy": policy, **settings}
        return dict(self.call("POST", self._path("challengers"), body, repeat=False))

    def remove_challenger(self, name: str) -> None:
        """Removes a challenger. Does not send the request again if its response is lost."""
        self.call("DELETE", self._path("challengers", name), repeat=False)

    def promote(self, challenger: str, keep_as: Optional[str] = None) -> Dict[str, Any]:
        """Makes a challenger the policy that answers. The policy until now becomes a challenger
        called `keep_as`, or is dropped. Does not send the request again if its response is lost."""
        body = {"challenger": challenger}
        if keep_as is not None:
            body["keepAs"] = keep_as
        return dict(self.call("POST", self._path("promote"), body, repeat=False))

    def snapshot(self) -> Dict[str, Any]:
        """Writes a snapshot of this client's model now."""
        return dict(self.call("POST", self._path("snapshot")))

    def back_up(self, name: str) -> str:
        """Copies all data of the service. Returns the folder of the copy inside the data folder.
        Does not send the request again if its response is lost."""
        return str(self.call("POST", "/v1/backup", {"name": name}, repeat=False)["backup"])

    def reload(self) -> Dict[str, Any]:
        """Makes the service read its keys and its certificate again. Returns what it uses now."""
        return dict(self.call("POST", "/v1/reload"))

    def of(self, model: str) -> "Client":
        """Returns a client of another model of the same service."""
        return Client(self.url, self._key, model=model, timeout=self.timeout,
                      retries=self.retries, backoff=self.backoff,
                      connect_timeout=self.connect_timeout, total_timeout=self.total_timeout,
                      context=self._context)

    def ready(self) -> bool:
        """Returns whether the service can serve now. Tries once."""
        try:
            return bool(self._try("GET", "/readyz", None, "json", self.timeout)[0] == 200)
        except OSError:
            return False

    def close(self) -> None:
        """Closes this thread's connection; the next call opens another."""
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
        """Sends any request of the API and returns the JSON of its response.

        repeat  True if the request may be done twice: it is sent again if its response is lost.
                False: it is sent again only if the service did not receive it or says that it was
                too busy

        Raises ServiceError if the service refuses the request, ConnectionError or TimeoutError if
        no try succeeds.
        """
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body, allow_nan=False).encode()
        kind_of_body = "octet-stream" if isinstance(body, bytes) else "json"
        end = time.monotonic() + self.total_timeout
        if not repeat:
            self.close()  # avoids the fault that the service has closed an idle connection
        for attempt in range(self.retries + 1):
            wait = min(self.backoff * 2**min(attempt, 20), _LONGEST_PAUSE) * (0.5 + random.random())
            try:
                status, headers, text = self._try(method, path, data, kind_of_body,
                                                  end - time.monotonic())
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
        raise AssertionError("every try ends in a response or an error")

    def _check_event(self, response: Mapping[str, Any], expected: str) -> None:
        if response.get("eventId") != expected:
            self.close()  # the next request must not receive what is left on this connection
            raise ConnectionError(f"{self.url}: expected the response for event {expected!r}, got "
                                  f"one for {response.get('eventId')!r}")

    def _path(self, *parts: str) -> str:
        return "/".join(["/v1/models", quote(self.model, safe=""),
                         *(quote(part, safe="") for part in parts)])

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        """Returns this thread's connection; opens one within `seconds` if there is none."""
        connection = getattr(self._local, "connection", None)
        if connection is not None and self._local.process != os.getpid():
            connection = None  # it belongs to the parent process, which still uses it
        if connection is None or connection.sock is None:  # none yet, or the service closed it
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

    def _try(self, method: str, path: str, data: Optional[bytes], kind_of_body: str,
             seconds: float) -> Any:
        """Sends one request. Raises OSError if no complete response came."""
        end = time.monotonic() + min(self.timeout, max(seconds, 0.001))
        headers = {"Content-Type": "application/" + kind_of_body} if data is not None else {}
        if method == "POST" and data is None:
            data = b""
        if self._key is not None:
            headers["X-API-Key"] = self._key
        connection = self._connection(min(self.connect_timeout, end - time.monotonic()))
        try:
            connection.sock.end = end  # type: ignore[union-attr]
            connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if isinstance(error, OSError):
                raise
            raise ConnectionError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()  # the next request must not receive this response
            raise


class _NotSent(OSError):
    """The request was not sent because the service could not be reached; the cause says why."""


class _TimedSocket:
    """A socket for http.client whose operations raise TimeoutError after `end`."""

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
    """Reads for a _TimedSocket; checks the time left before every piece."""

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


def _event(event: Union[str, Decision, SlotDecisions]) -> str:
    return event if isinstance(event, str) else event.event_id


def _plain(features: Any) -> Any:
    """Converts NumPy arrays and numbers to what JSON can express."""
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
