"""Copies that a balanced plan left without a broker: anywhere the hard limits let them, others making way."""

from collections.abc import Iterator, Sequence
from typing import Any

from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.search_state import Board

_NEAR = 24  # brokers, and copies on each, that are asked to make way


def open_slots(board: Board, stubs: Any) -> list[int]:
    """The slots that still lie on a stub, smallest first."""
    import numpy as np

    fleet = board.fleet
    slots = np.nonzero(stubs[fleet.home])[0].tolist()
    return sorted((s for s in slots if s not in board.moved), key=lambda s: (board.size(s), s))


def finish(board: Board, slots: Sequence[int]) -> list[int]:
    """Place what is left, in this order, each on the emptiest broker; returns the slots that fit nowhere."""
    receivers = Receivers(board)
    left = []
    for slot in slots:
        dest = receivers.emptiest(slot, ())
        if dest is not None:
            board.move(slot, dest)
        elif not _make_way(board, slot):
            left.append(slot)
    return left


def _make_way(board: Board, slot: int) -> bool:
    """Move one arrived copy on, so that the slot fits where that was."""
    brokers, racks = board.legal(slot)
    rack = board.fleet.pool.tolist()
    takes = board.fleet.receiver.tolist()
    legal = [b for b, r in enumerate(rack) if takes[b] and r in racks and b not in brokers]
    size = board.size(slot)
    for dest in sorted(legal, key=lambda b: (board.load[b] - board.ceiling[b], b))[:_NEAR]:
        lack = board.load[dest] + size - board.ceiling[dest]
        for other in sorted(board.arrived[dest], key=lambda s: (board.size(s), s)):
            if board.size(other) >= lack and board.fleet.part[other] != board.fleet.part[slot]:
                for to in _roomy(board, other, takes):
                    board.move(other, to)
                    board.move(slot, dest)
                    return True
    return False


def _roomy(board: Board, slot: int, takes: Sequence[bool]) -> Iterator[int]:
    """The first of the roomiest brokers that may take the slot."""
    size, here = board.size(slot), board.broker(slot)
    able = [b for b, may in enumerate(takes) if may and b != here and board.can_take(b, size)]
    for b in sorted(able, key=lambda b: (board.load[b] - board.ceiling[b], b))[:_NEAR]:
        if board.fits(slot, b):
            yield b
            return
