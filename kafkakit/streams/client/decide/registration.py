"""What a client of a stream writes about itself into the control store, so that a failover knows when it has moved.

A process has one document for each stream below `streams/STREAM/clients`, with one entry for its producers and one for
the consumers of each group. Clocks of two hosts are never compared: a process that reads documents sees `beat` grow,
or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.lease import Holder
from kafkakit.streams.model.route import check_stream

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Text = Annotated[str, Meta(max_length=500)]


class ClientKind(StrEnum):
    """What a client does with the records of a stream."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClientEntry:
    """The producers of a process (`group` empty), or its consumers of a group.

    `epoch` is the newest one that all of them have finished moving to. A producer has when nothing that it sends can
    be written any more to a segment that this epoch does not write; a consumer when it reads every segment of this
    epoch. Records are tried for `delivery_timeout_ms`, 0 for a consumer.
    """

    kind: ClientKind
    epoch: _Count
    group: _Text = ""
    delivery_timeout_ms: _Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDocument:
    """One process and one stream, under a random id; `beat` grows with each writing, every 5 s and with each change."""

    id: _Text
    beat: _Count
    holder: Holder
    entries: tuple[ClientEntry, ...]


CLIENT_DOCUMENT = DocumentKind("stream-client", ClientDocument)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRegistration:
    """One entry of a document. `id` is unique in the stream, and the same for as long as the process has the entry."""

    id: str
    kind: ClientKind
    group: str
    epoch: int
    delivery_timeout_ms: int
    beat: int
    holder: Holder


def clients_folder(stream: str) -> str:
    """Where the documents of a stream's clients are kept."""
    return f"streams/{check_stream(stream)}/clients"


def merged(entries: Iterable[ClientEntry]) -> tuple[ClientEntry, ...]:
    """One entry for each kind and group, sorted: the lowest epoch, and the longest time that records are tried."""
    found: dict[tuple[ClientKind, str], ClientEntry] = {}
    for each in entries:
        other = found.get((each.kind, each.group), each)
        found[each.kind, each.group] = ClientEntry(
            kind=each.kind,
            group=each.group,
            epoch=min(each.epoch, other.epoch),
            delivery_timeout_ms=max(each.delivery_timeout_ms, other.delivery_timeout_ms),
        )
    return tuple(found[key] for key in sorted(found))


def registrations_of(document: ClientDocument) -> tuple[ClientRegistration, ...]:
    """The entries of a document, each by itself."""
    return tuple(
        ClientRegistration(
            id=f"{document.id} {each.kind}{f' {each.group}' if each.group else ''}",
            kind=each.kind,
            group=each.group,
            epoch=each.epoch,
            delivery_timeout_ms=each.delivery_timeout_ms,
            beat=document.beat,
            holder=document.holder,
        )
        for each in document.entries
    )
