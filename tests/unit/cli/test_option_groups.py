"""Groups of options: one declaration becomes parameters of many commands, and comes back as one value."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kafkakit.cli.option_groups import IS_RECORDED, recorded_as, recorded_words, with_option_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    topics: Annotated[str, typer.Option(help="Topics.")] = field(metadata=IS_RECORDED)
    pin: Annotated[list[str] | None, typer.Option(help="Pinned.")] = None
    skip_no_ops: Annotated[bool, typer.Option("--skip-no-ops", help="Skip.")] = field(
        default=False, metadata=IS_RECORDED
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    plan: Annotated[Path | None, typer.Option(envvar="T_PLAN", help="Plan file.")] = None
    limit: Annotated[int, typer.Option(min=0, help="Limit.")] = field(default=5, metadata=IS_RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSaving(Saving):
    limit: Annotated[int, typer.Option(min=0, help="Limit.")] = field(default=1, metadata=IS_RECORDED)


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


def test_recorded_words_are_those_that_were_given() -> None:
    words = recorded_words("t", Scope(topics="a", skip_no_ops=True, pin=["x"]), Saving(limit=0))
    assert words == {"command": "t", "topics": "a", "skip-no-ops": "true"}
    assert recorded_words("t", Scope(topics=""), Saving())["limit"] == "5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_moves: int | None = field(default=None, metadata=recorded_as(lambda value: "" if value is None else str(value)))
    pin: list[str] | None = field(default=None, metadata=recorded_as(lambda names: ",".join(names or ())))


def test_a_field_may_make_its_word_itself() -> None:
    assert recorded_words("c", Limits(max_moves=0, pin=["a", "b"])) == {"command": "c", "max-moves": "0", "pin": "a,b"}
    assert recorded_words("c", Limits()) == {"command": "c"}
