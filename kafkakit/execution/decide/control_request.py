"""What a command asks of a running executor, and what that answered: two small documents.

The command writes the control request, the executor only reads it and writes its answer, which names the request's
version; so a command can wait until its request was taken up. A request is for one run, by the fencing token of its
lease: it does not outlive the run and cannot pause or abort the next one. Both kinds of documents, and where they are
kept, have the recorded names `wish` and `wish-answer`.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind, decode_document, encode_document
from kafkakit.execution.decide.schedule.work import Rates

CONTROL_REQUEST_KIND = "wish"

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Text = Annotated[str, Meta(max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """What the run with the fencing token `token` is to do: stop starting steps, end early, keep to rates.

    `rates` None: no request about rates, the run keeps its own. `Rates()` with nothing set: no throttle at all.
    `by` and `at` say for people who asked last.
    """

    token: _Count
    by: _Text
    at: Annotated[datetime, Meta(tz=True)]
    paused: bool = False
    abort: bool = False
    rates: Rates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The executor has read the request of `version`; `refused` says why it will not follow it, empty when it does."""

    token: _Count
    version: _Count
    at: Annotated[datetime, Meta(tz=True)]
    refused: _Text = ""


ANSWER_DOCUMENT = DocumentKind("wish-answer", Answer)


def decode_control_request(data: bytes, source: str) -> ControlRequest:
    """Read a control request; `InputError` when it is none or of a newer schema. Unknown fields are ignored."""
    return decode_document(data, CONTROL_REQUEST_KIND, ControlRequest, source)


def encode_control_request(request: ControlRequest) -> bytes:
    """The document of a control request, brokers in order; `InputError` for one that its reader would refuse."""
    rates = request.rates
    if rates is not None:
        into_of, out_of = dict(sorted(rates.into_of.items())), dict(sorted(rates.out_of.items()))
        request = replace(request, rates=replace(rates, into_of=into_of, out_of=out_of))
    data = encode_document(CONTROL_REQUEST_KIND, request)
    decode_control_request(data, "the control request")
    return data


def changed(
    request: ControlRequest | None,
    token: int,
    by: str,
    at: datetime,
    *,
    paused: bool | None = None,
    abort: bool | None = None,
    rates: Rates | None = None,
) -> ControlRequest:
    """The present request for a run with what is given changed; one for another run counts as none."""
    base = request if request is not None and request.token == token else ControlRequest(token=token, by=by, at=at)
    return replace(
        base,
        by=by,
        at=at,
        paused=base.paused if paused is None else paused,
        abort=base.abort if abort is None else abort,
        rates=base.rates if rates is None else rates,
    )
