"""Commands that messages name: every place that makes one names a command and options that exist."""

import shlex

import pytest

from kafkakit.core.text import ShellCommand, called_by, shell_command
from tests.rigs.printed_commands import lacking, makers, named_commands, options_of, refusal_of_line, runs_on


def test_every_place_names_a_command_and_its_own_options() -> None:
    found = list(makers())
    assert found
    for maker in found:
        if maker.verb is None:
            continue  # parsed when it is made: tests/conftest.py
        known = options_of(maker.verb)
        assert known is not None, f"{maker.place}: {maker.verb!r} is not a command"
        assert set(maker.options) <= known, f"{maker.place}: {maker.verb}"


# Texts that name a command but print no line of it: a title, who wrote a file, the program's own examples.
NO_LINES = ("cli/root.py", "adapters/tls.py", "lint/report.py", "sandbox/decide/processes.py")


def test_a_text_with_a_value_in_a_command_line_is_a_value() -> None:
    found = [each for each in named_commands() if not each.place.startswith(NO_LINES)]
    assert len(found) > 50
    assert [f"{each.place}: {each.verb}{each.rest}" for each in found if each.has_value] == []


def test_a_text_names_commands_and_options_that_exist() -> None:
    for each in named_commands():
        known = options_of(each.verb)
        assert known is None or set(each.options) <= known, f"{each.place}: {each.verb}{each.rest}"


# Names of groups in a sentence, and a title.
GROUPS_IN_PROSE = ("doctor/decide.py", "registry/decide/v2_calls.py", "lint/decide/kinds/kafkakit.py")


def test_a_text_shows_a_place_for_each_value_that_its_command_needs() -> None:
    found = [each for each in named_commands() if not each.place.startswith((*NO_LINES, *GROUPS_IN_PROSE))]
    told = {f"{each.place}: {each.verb}{each.rest[:40]}": lacking(each) for each in found if each.verb}
    assert {line: lack for line, lack in told.items() if lack} == {}


def test_a_command_in_a_text_ends_with_its_clause() -> None:
    """Who copies the rest of the line, or all between backquotes, gets no word that is not of the command."""
    found = [each for each in named_commands() if not each.place.startswith((*NO_LINES, *GROUPS_IN_PROSE))]
    assert [f"{each.place}: {each.verb}{each.rest}" for each in found if runs_on(each)] == []


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


def test_a_value_that_begins_with_a_dash_stands_behind_an_equals_sign() -> None:
    made = shell_command("reassign abort", topic="-x y", run=None)
    assert str(made) == "kafkakit reassign abort --topic='-x y'"
    assert made.words[-1] == "--topic=-x y"
    assert str(shell_command("topicmappr check", brokers="-2")) == "kafkakit topicmappr check --brokers -2"


def test_options_as_typed_keep_their_quotes_and_stand_before_a_dashed_argument() -> None:
    made = ShellCommand("streams commits delete", ("-x",), typed=("--topic 'a b'", "--apply"))
    assert str(made) == "kafkakit streams commits delete --topic 'a b' --apply -- -x"
    assert made.words[3:] == ("--topic", "a b", "--apply", "--", "-x")


def test_commands_of_a_cluster_are_called_by_its_program() -> None:
    text = "see kafkakit doctor, or `kafkakit reassign list`; kafkakit profile list, /kafkakit topicmappr"
    assert called_by(text, "kafkakit -P") == (
        "see kafkakit -P doctor, or `kafkakit -P reassign list`; kafkakit profile list, /kafkakit topicmappr"
    )
    assert called_by("kafkakit --profile a doctor", "kafkakit --profile b") == "kafkakit --profile a doctor"


SOURCES = {
    "topicmappr drain": {"--snapshot": "--snapshot 's 1.json'", "--sizes-file": "--sizes-file f"},
    "topicmappr fix-racks": {"--snapshot": "--snapshot 's 1.json'"},
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "first: kafkakit topicmappr drain --brokers 4",
            "first: kafkakit -P topicmappr drain --snapshot 's 1.json' --sizes-file f --brokers 4",
        ),
        (
            "kafkakit topicmappr drain --snapshot o.json\nkafkakit topicmappr fix-racks",
            "kafkakit -P topicmappr drain --sizes-file f --snapshot o.json\n"
            "kafkakit -P topicmappr fix-racks --snapshot 's 1.json'",
        ),
        ("`kafkakit -P topicmappr fix-racks`", "`kafkakit -P topicmappr fix-racks --snapshot 's 1.json'`"),
        ("kafkakit topicmappr drain-all; topicmappr drain", "kafkakit -P topicmappr drain-all; topicmappr drain"),
        ("kafkakit reassign apply p.json", "kafkakit -P reassign apply p.json"),
    ],
)
def test_a_command_reads_the_same_file_and_sizes(text: str, shown: str) -> None:
    assert called_by(text, "kafkakit -P", SOURCES) == shown
