"""Registrations of clients: what is merged tells the least that is certain, and any bytes are a document or refused."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.streams.client.decide.client_documents import (
    CLIENT_DOCUMENT,
    ClientDocument,
    ClientEntry,
    ClientKind,
    merged,
    registrations_of,
)
from tests.rigs.stream_routes import HOLDER

ENTRIES = st.lists(
    st.builds(
        ClientEntry,
        kind=st.sampled_from(ClientKind),
        epoch=st.integers(0, 9),
        group=st.sampled_from(("", "a", "b c", "é\n")),
        delivery_timeout_ms=st.integers(0, 9),
    ),
    max_size=8,
)


@given(ENTRIES)
def test_no_client_is_behind_what_its_process_registered(entries: list[ClientEntry]) -> None:
    found = {(each.kind, each.group): each for each in merged(entries)}
    assert set(found) == {(each.kind, each.group) for each in entries}
    for key, each in found.items():
        same = [one for one in entries if (one.kind, one.group) == key]
        assert each.epoch == min(one.epoch for one in same)
        assert each.delivery_timeout_ms == max(one.delivery_timeout_ms for one in same)
    assert merged(reversed(entries)) == merged(entries) == merged(merged(entries))


@given(ENTRIES, st.text(max_size=9))
def test_a_document_is_read_as_it_was_written_with_an_id_for_each_entry(entries: list[ClientEntry], name: str) -> None:
    document = ClientDocument(id=name, beat=3, holder=HOLDER, entries=merged(entries))
    assert CLIENT_DOCUMENT.decode(CLIENT_DOCUMENT.encode(document), "x") == document
    found = registrations_of(document)
    assert len({each.id for each in found}) == len(found) == len(document.entries)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_a_document_or_refused(data: bytes, at: int) -> None:
    whole = CLIENT_DOCUMENT.encode(ClientDocument(id="x", beat=1, holder=HOLDER, entries=()))
    with suppress(InputError):
        assert isinstance(CLIENT_DOCUMENT.decode(whole[:at] + data + whole[at:], "x"), ClientDocument)
