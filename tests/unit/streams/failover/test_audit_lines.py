"""The lines of an audit log: any bytes are read, and every command is there once."""

import json

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.streams.failover.decide.history import MOST_COMMANDS, read_commands


def line(number: int, outcome: str, **more: str) -> bytes:
    found = {"time": f"t{number}", "id": str(number), "by": "me", "command": "run", "outcome": outcome, **more}
    return json.dumps(found).encode() + b"\n"


@given(st.binary(max_size=400))
def test_any_bytes_are_read_and_counted(data: bytes) -> None:
    commands, damaged = read_commands(data)
    assert len(commands) + damaged <= len(data.splitlines())


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_each_command_is_there_once_in_the_order_of_beginning(order: list[int], ended: set[int]) -> None:
    begun = b"".join(line(number, "begun") for number in range(6))
    ends = b"".join(line(number, "done", result="waiting") for number in order if number in ended)
    commands, damaged = read_commands(begun + b"torn" + b"\n" + ends)
    assert damaged == 1
    assert [each.line.id for each in commands] == [str(number) for number in range(6)]
    assert [each.outcome for each in commands] == [
        "waiting" if number in ended else "cut or running" for number in range(6)
    ]  # fmt: skip


def test_the_newest_commands_are_kept() -> None:
    commands, _ = read_commands(b"".join(line(number, "begun") for number in range(MOST_COMMANDS + 3)))
    assert (len(commands), commands[0].line.id) == (MOST_COMMANDS, "3")
