"""Commands that messages name: every place that makes one names a command and options that exist."""

import shlex

import pytest

from kafkakit.core.text import ShellCommand, shell_command
from tests.rigs.printed_commands import makers, options_of, refusal_of_line


def test_every_place_names_a_command_and_its_own_options() -> None:
    found = list(makers())
    assert found
    for maker in found:
        if maker.verb is None:
            continue  # parsed when it is made: tests/conftest.py
        known = options_of(maker.verb)
        assert known is not None, f"{maker.place}: {maker.verb!r} is not a command"
        assert set(maker.options) <= known, f"{maker.place}: {maker.verb}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("kafkakit topicmappr fix-racks --topics t --brokers 3", "No such option"),
        ("kafkakit topicmappr set-replication --topics t", "Missing argument"),
        ("kafkakit topicmappr set-replication many --topics t", "valid integer"),
        ("kafkakit topicmappr", "Usage:"),
        ("kafkakit reassign nosuch", "No such command"),
    ],
)
def test_a_line_that_the_command_line_refuses_is_told(line: str, told: str) -> None:
    assert told in refusal_of_line(line)


def test_a_refused_command_cannot_be_made_in_a_test() -> None:
    with pytest.raises(AssertionError, match="No such option"):
        shell_command("topicmappr fix-racks", brokers="3")


@pytest.mark.parametrize("verb", ["", "topicmappr --x", "topicmappr check; id", "Topicmappr"])
def test_other_words_are_not_a_command(verb: str) -> None:
    with pytest.raises(ValueError, match="is not a command"):
        ShellCommand(verb)


def test_another_text_is_not_an_option() -> None:
    with pytest.raises(ValueError, match="is not an option"):
        ShellCommand("topicmappr check", options=(("topics", "t"),))


def test_a_command_is_printed_as_a_shell_reads_it() -> None:
    made = shell_command(
        "topicmappr drain", program="kafkakit --profile prod", topics="it's", brokers=0, pin=("a", "b c"), spread=True
    )
    line = "kafkakit --profile prod topicmappr drain --topics 'it'\"'\"'s' --brokers 0 --pin a --pin 'b c' --spread"
    assert str(made) == line
    assert tuple(shlex.split(line)[3:]) == made.words
    left_out = shell_command("topicmappr check", topics="", snapshot=None, with_=None)
    assert str(left_out) == "kafkakit topicmappr check"


def test_an_argument_that_begins_with_a_dash_stands_behind_two() -> None:
    made = shell_command("streams commits delete", "-x", topic="t")
    assert str(made) == "kafkakit streams commits delete --topic t -- -x"
    assert shell_command("topicmappr audit", "-").words[-1:] == ("-",)
