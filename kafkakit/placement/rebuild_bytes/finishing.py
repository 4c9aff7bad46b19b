"""Copies that a balanced plan left without a broker: anywhere the hard limits let them, others making way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.search_state import SearchState

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools

_NEAR = 24  # brokers, and copies on each, that are asked to make way


def open_slots(state: SearchState, placeholders: Bools) -> list[int]:
    """The slots that still lie on a placeholder, smallest first."""
    import numpy as np

    table = state.table
    slots = np.nonzero(placeholders[table.home])[0].tolist()
    return sorted((s for s in slots if s not in state.moved), key=lambda s: (state.size(s), s))


def finish(state: SearchState, slots: Sequence[int]) -> list[int]:
    """Place what is left, in this order, each on the emptiest broker; returns the slots that fit nowhere."""
    receivers = Receivers(state)
    left = []
    for slot in slots:
        dest = receivers.emptiest(slot, ())
        if dest is not None:
            state.move(slot, dest)
        elif not _make_way(state, slot):
            left.append(slot)
    return left


def _make_way(state: SearchState, slot: int) -> bool:
    """Move one arrived copy on, so that the slot fits where that was."""
    brokers, racks = state.legal(slot)
    rack = state.table.pool.tolist()
    takes = state.table.receiver.tolist()
    legal = [b for b, r in enumerate(rack) if takes[b] and r in racks and b not in brokers]
    size = state.size(slot)
    for dest in sorted(legal, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR]:
        lack = state.load[dest] + size - state.ceiling[dest]
        for other in sorted(state.arrived[dest], key=lambda s: (state.size(s), s)):
            if state.size(other) >= lack:
                for to in _roomy(state, other, takes):
                    state.move(other, to)
                    state.move(slot, dest)
                    return True
    return False


def _roomy(state: SearchState, slot: int, takes: Sequence[bool]) -> Iterator[int]:
    """The first of the roomiest brokers that may take the slot."""
    size, here = state.size(slot), state.broker(slot)
    able = [b for b, may in enumerate(takes) if may and b != here and state.can_take(b, size)]
    for b in sorted(able, key=lambda b: (state.load[b] - state.ceiling[b], b))[:_NEAR]:
        if state.fits(slot, b):
            yield b
            return
