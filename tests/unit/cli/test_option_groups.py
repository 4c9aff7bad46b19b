"""Groups of options: one declaration becomes parameters of many commands, and comes back as one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kafkakit.cli.option_groups import option_words, with_option_groups
from kafkakit.core.options import (
    REPEATED,
    command_record,
    duration_option,
    not_typed,
    option,
    options_given,
    parsed_option,
    required_argument,
    required_option,
    texts,
    typed_as,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    topics: str = required_option(help="Topics.", recorded=True)
    pin: Annotated[list[str] | None, typer.Option(help="Pinned.")] = None
    skip_no_ops: bool = option(False, "--skip-no-ops", help="Skip.", recorded=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    plan: Annotated[Path | None, typer.Option(envvar="T_PLAN", help="Plan file.")] = None
    limit: int = option(5, min=0, help="Limit.", recorded=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSaving(Saving):
    limit: int = option(1, min=0, help="Limit.", recorded=True)


seen: list[object] = []
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("big")
@with_option_groups
def big(
    ctx: typer.Context, name: Annotated[str, typer.Argument()], scope: Scope, saving: Saving, yes: bool = False
) -> int:
    """Do it."""
    seen[:] = [ctx.info_name, name, scope, saving, yes]
    return 3


@app.command("small")
@with_option_groups
def small(scope: Scope, saving: SmallSaving) -> None:
    seen[:] = [scope, saving]


def test_a_command_gets_its_groups_as_values() -> None:
    ran = CliRunner().invoke(app, ["big", "n", "--topics", "a", "--pin", "x", "--pin", "y", "--plan", "p", "--yes"])
    assert ran.exit_code == 0, ran.output
    assert seen == ["big", "n", Scope(topics="a", pin=["x", "y"]), Saving(plan=Path("p")), True]


def test_a_subclass_changes_a_default_and_nothing_else() -> None:
    assert CliRunner().invoke(app, ["small", "--topics", "a"], env={"T_PLAN": "q"}).exit_code == 0
    assert seen == [Scope(topics="a"), SmallSaving(plan=Path("q"), limit=1)]


def test_a_field_without_default_is_required_and_limits_hold() -> None:
    assert "--topics" in CliRunner().invoke(app, ["small"]).output
    assert CliRunner().invoke(app, ["small", "--topics", "a", "--limit", "-1"]).exit_code == 2


def test_help_lists_the_options_in_the_order_of_the_signature_and_the_docstring_stays() -> None:
    text = CliRunner().invoke(app, ["big", "--help"]).output
    order = [text.index(name) for name in ("--topics", "--pin", "--skip-no-ops", "--plan", "--limit", "--yes")]
    assert order == sorted(order)
    assert "Do it." in text


def test_two_parameters_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="takes topics twice"):

        @with_option_groups
        def both(topics: str, scope: Scope) -> None:
            del topics, scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_moves: int | None = option(
        None, "--max-moves", recorded=lambda value: "" if value is None else str(value), help="Moves."
    )
    given: tuple[tuple[str, str | None], ...] = options_given()


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    scale: bool = not_typed(True)
    words: Mapping[str, str] = command_record()
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(Copies):
    count: int = required_argument(metavar="N", help="Count.", recorded=True)
    pinned: tuple[str, ...] = parsed_option(
        None, "--pin", parse=texts, typed=REPEATED, help="Pins.", recorded=lambda names: ",".join(names or ())
    )
    half: float = parsed_option(
        "7", "--set", parse=lambda text: int(text) / 2, help="Twice.", recorded_when=lambda given: given["yes"],
        recorded=True,
    )  # fmt: skip


@app.command("copy")
@with_option_groups
def copy(ctx: typer.Context, request: Pinned, saving: Saving, yes: bool = False) -> None:
    seen[:] = [request]


def test_a_request_holds_what_its_options_mean_and_the_record_what_was_typed() -> None:
    words = ["copy", "3", "--pin", "a", "--pin", "b", "--set", "8", "--max-moves", "0", "--limit", "0"]
    assert CliRunner().invoke(app, words).exit_code == 0
    record = {"command": "copy", "count": "3", "pin": "a,b", "max-moves": "0"}
    limits = Limits(max_moves=0)
    assert seen == [Pinned(count=3, pinned=("a", "b"), half=4.0, limits=limits, words=record)]
    assert [request.limits.given for request in seen if isinstance(request, Pinned)] == [(("--max-moves", "0"),)]
    assert CliRunner().invoke(app, ["copy", "3", "--yes"]).exit_code == 0
    assert seen == [Pinned(count=3, words={"command": "copy", "count": "3", "set": "7", "limit": "5"})]
    assert Pinned(count=3).half == 3.5


def test_a_request_lists_its_own_options_before_those_of_what_it_extends() -> None:
    text = CliRunner().invoke(app, ["copy", "--help"]).output
    order = [text.index(name) for name in ("--pin", "--set", "--max-moves", "--plan")]
    assert order == sorted(order)
    assert "--scale" not in text


def test_words_of_a_group_are_the_options_that_differ_from_the_usual() -> None:
    assert option_words(Scope(topics="a b", pin=["x"])) == ("--topics 'a b'", "--pin x")
    assert option_words(Saving()) == ()
    with pytest.raises(TypeError, match="pinned is not kept"):
        option_words(Pinned(count=3, pinned=("a",)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    name: str = required_argument(parse=str.upper, metavar="NAME", help="Name.")
    to: str = required_option("--to", help="Target.")
    wait_s: float = duration_option("2m", "--wait", help="Wait.")
    pause_s: float | None = duration_option(None, "--pause", may_be_zero=True, help="Pause.")
    stops: int | None = not_typed(None)


@app.command("return")
@with_option_groups
def go_back(
    request: Annotated[
        Journey,
        typed_as(to=not_typed("home"), stops=required_option("--stops", parse=int, typed=int, min=1, help="Stops.")),
    ],
) -> None:
    seen[:] = [request]


def test_a_command_types_fields_in_another_way_and_gets_the_same_request() -> None:
    assert CliRunner().invoke(app, ["return", "x", "--stops", "3", "--pause", "0"]).exit_code == 0
    assert seen == [Journey(name="X", to="home", stops=3, pause_s=0.0)]
    assert Journey(name="X", to="home").wait_s == 120.0
    text = CliRunner().invoke(app, ["return", "--help"]).output
    assert "--to" not in text
    assert text.index("--stops") < text.index("--wait") < text.index("--pause")
    assert CliRunner().invoke(app, ["return", "x", "--stops", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["return", "x"]).exit_code == 2
