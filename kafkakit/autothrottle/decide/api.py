"""kafka-kit's HTTP admin API of overrides, as requests and replies; the same routes answer JSON where it is accepted.

Its replies in plain text have status 200 for errors, too: only a wrong method (405) and an unknown path (404) differ.
JSON replies have 400 for errors. Of kafka-kit's defects these are not repeated: `POST /throttle/all` made a znode
`all` that broke the reading of all others, and negative rates and `00` were taken; each gets the error text of its
parameter. `POST /throttle/remove/all` passes over children that are no broker ids. A POST does not wait for the tick
that it causes. `rate` is in MB/s (1,000,000 bytes), for both directions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.autothrottle.decide.overrides import MB, Override, Overrides
from kafkakit.core.documents import encode_json
from kafkakit.core.http_page import HttpPage, HttpRequest

JSON_MEDIA = "application/json"
TEXT_MEDIA = "text/plain; charset=utf-8"
MAX_RATE_MB = 10_000_000
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
NO_BROKER = "broker param must be provided as integer or the string 'all'"


class Verb(StrEnum):
    """What a request is for."""

    READ = "read"
    SET = "set"
    REMOVE = "remove"
    REMOVE_ALL = "remove all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One sound request; `broker` None is the override for all brokers."""

    verb: Verb
    broker: int | None = None
    override: Override | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is not answered, with kafka-kit's status and that of the JSON variant."""

    text: str
    status: int = 200
    json_status: int = 400


def is_api(path: str) -> bool:
    """True for the paths of kafka-kit's API."""
    return path.split("/")[1:2] == ["throttle"]


def read_call(request: HttpRequest) -> ApiCall | Refusal:
    """The request as a call, or why it is none; parameters are checked in kafka-kit's order."""
    parts = [p for p in request.path.split("/") if p][1:]
    is_removal = parts[:1] == ["remove"]
    names = parts[1:] if is_removal else parts
    if len(names) > 1:
        return Refusal(text="404 page not found", status=404, json_status=404)
    if request.method != "POST" and (is_removal or request.method != "GET"):
        return Refusal(text="disallowed method", status=405, json_status=405)
    override: Override | None = None
    if request.method == "POST" and not is_removal:
        found = _override(request)
        if isinstance(found, Refusal):
            return found
        override = found
    if is_removal and names == ["all"]:
        return ApiCall(verb=Verb.REMOVE_ALL)
    broker = int(names[0]) if names and _INTEGER.fullmatch(names[0]) else None
    if names and (broker is None or not 0 <= broker < 2**31):
        return Refusal(text=NO_BROKER)
    verb = Verb.REMOVE if is_removal else Verb.SET if override is not None else Verb.READ
    return ApiCall(verb=verb, broker=broker, override=override)


def perform(
    call: ApiCall, read: Callable[[], Overrides], put: Callable[[int | None, Override | None], None], *, as_json: bool
) -> HttpPage:
    """Carry the call out and answer it; `put` sets one override, or removes it."""
    if call.verb is Verb.READ:
        overrides = read()
        found = overrides.every if call.broker is None else overrides.of.get(call.broker)
        return _reply(_named(call.broker, read_text(found)), override=found, as_json=as_json)
    if call.verb is Verb.REMOVE_ALL:
        brokers = sorted(read().of, key=str)
        for broker in brokers:
            put(broker, None)
        return _reply("".join(_named(b, "throttle removed\n") for b in brokers), as_json=as_json)
    put(call.broker, call.override)
    if call.override is None:
        return _reply(_named(call.broker, "throttle removed\n"), as_json=as_json)
    words = f"throttle successfully set to {_rate_words(call.override)}\n"
    return _reply(_named(call.broker, words), override=call.override, as_json=as_json)


def refusal_page(refusal: Refusal, *, as_json: bool) -> HttpPage:
    """The answer to a request that is none."""
    if as_json:
        return HttpPage(body=encode_json({"error": refusal.text}), media=JSON_MEDIA, status=refusal.json_status)
    return HttpPage(body=f"{refusal.text}\n".encode(), media=TEXT_MEDIA, status=refusal.status)


def read_text(override: Override | None) -> str:
    """kafka-kit's reply to a read."""
    if override is None:
        return "no throttle override is set\n"
    return f"a throttle override is configured at {_rate_words(override)}\n"


def _override(request: HttpRequest) -> Override | Refusal:
    text = request.query.get("rate", "")
    if not text:
        return Refusal(text="rate param must be specified")
    if not _INTEGER.fullmatch(text) or int(text) > MAX_RATE_MB:
        return Refusal(text="rate param must be supplied as an integer")
    if int(text) <= 0:
        return Refusal(text="rate param must be >0")
    auto = request.query.get("autoremove", "")
    if auto and auto not in (*_TRUE, *_FALSE):
        return Refusal(text="autoremove param must be a bool")
    rate = int(text) * MB
    return Override(into=rate, out=rate, autoremove=auto in _TRUE)


def _rate_words(override: Override) -> str:
    """The rate as kafka-kit prints it; it knows one for both directions, so the smaller is named where they differ."""
    rate = min(r for r in (override.into, override.out) if r is not None) / MB
    return f"{rate:g}MB/s, autoremove=={'true' if override.autoremove else 'false'}"


def _named(broker: int | None, words: str) -> str:
    return words if broker is None else f"broker {broker}: {words}"


def _reply(text: str, *, override: Override | None = None, as_json: bool) -> HttpPage:
    if not as_json:
        return HttpPage(body=text.encode(), media=TEXT_MEDIA)
    data = None if override is None else {"in": override.into, "out": override.out, "autoremove": override.autoremove}
    return HttpPage(body=encode_json({"message": text.strip(), "override": data}), media=JSON_MEDIA)
