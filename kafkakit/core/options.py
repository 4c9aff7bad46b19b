"""Requests: frozen dataclasses whose fields say how an operator gives them on a command line.

A decision takes the request as the command made it; there is no second type with the same fields. What is typed as a
text becomes the field's value by `parse`, so that a request never holds what could not be read:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Readers:
        group: tuple[str, ...] = parsed_option(None, "--group", parse=texts, typed=REPEATED, help="Groups. Repeatable.")

`kafkakit.cli.option_groups` makes the options of a command of these fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from kafkakit.core.quantities import parse_duration, parse_duration_or_zero

T = TypeVar("T")

OPTION = "option"
"""The key of a field's metadata: an `Option`, or None for a field that nobody types."""
RECORDED = "recorded"
"""The key of a field's metadata: whether, or by which function as what, its value is a word of the recorded request."""

RECORDED_WHEN = "recorded when"
"""The key of a field's metadata: whether it is recorded, by what was typed for all options; None: always."""


class Completion(StrEnum):
    """The names that a shell completes."""

    TOPICS = "topics"
    BROKERS = "brokers"
    GROUPS = "groups"
    PROFILES = "profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field is given: `flags` and `details` (help, metavar, min, ...) are those of Typer.

    With `parse` it is typed as `typed`, and the field has what `parse` makes of it; `default` is as one types it.
    """

    flags: tuple[str, ...]
    default: Any
    details: Mapping[str, Any]
    completion: Completion | None = None
    typed: Any = None
    parse: Callable[[Any], Any] | None = None
    is_argument: bool = False


def option(
    default: T,
    *flags: str,
    completion: Completion | None = None,
    recorded: bool | Callable[[Any], str] = False,
    recorded_when: Callable[[Mapping[str, Any]], bool] | None = None,
    **details: Any,
) -> T:
    """A field that is an option of the field's own type."""
    made = Option(flags=flags, default=default, details=details, completion=completion)
    found: T = field(default=default, metadata={OPTION: made, RECORDED: recorded, RECORDED_WHEN: recorded_when})
    return found


def parsed_option(
    default: Any,
    *flags: str,
    parse: Callable[[Any], T],
    typed: Any = str,
    completion: Completion | None = None,
    recorded: bool | Callable[[Any], str] = False,
    recorded_when: Callable[[Mapping[str, Any]], bool] | None = None,
    **details: Any,
) -> T:
    """A field that is typed in another form; `parse` is called for the default as well."""
    made = Option(flags=flags, default=default, details=details, completion=completion, typed=typed, parse=parse)
    metadata = {OPTION: made, RECORDED: recorded, RECORDED_WHEN: recorded_when}
    usual = parse(default)
    if type(usual).__hash__ is None:  # such as a mapping: a new one for each request
        fresh: T = field(default_factory=lambda: parse(default), metadata=metadata)
        return fresh
    found: T = field(default=usual, metadata=metadata)
    return found


def duration_option(default: str | None, flag: str, *, may_be_zero: bool = False, **details: Any) -> Any:
    """A field of seconds that is typed as a duration; None where it has no default and is not given."""
    read = parse_duration_or_zero if may_be_zero else parse_duration

    def parse(text: str | None) -> float | None:
        return None if text is None else read(text, flag)

    typed = str if default is not None else str | None
    return parsed_option(default, flag, typed=typed, parse=parse, metavar="DURATION", **details)


def required_option(
    *flags: str,
    parse: Callable[[Any], Any] | None = None,
    typed: Any = str,
    completion: Completion | None = None,
    recorded: bool | Callable[[Any], str] = False,
    **details: Any,
) -> Any:
    """A field that is an option which has to be given."""
    made = Option(flags=flags, default=..., details=details, completion=completion, typed=typed, parse=parse)
    return field(metadata={OPTION: made, RECORDED: recorded})


def required_argument(
    *,
    parse: Callable[[Any], Any] | None = None,
    typed: Any = str,
    completion: Completion | None = None,
    recorded: bool | Callable[[Any], str] = False,
    **details: Any,
) -> Any:
    """A field that is an argument of the command, which has to be given."""
    made = Option(
        flags=(), default=..., details=details, completion=completion, typed=typed, parse=parse, is_argument=True
    )
    return field(metadata={OPTION: made, RECORDED: recorded})


def not_typed(default: T) -> T:
    """A field that is no option: the command fills it in."""
    found: T = field(default=default, metadata={OPTION: None})
    return found


@dataclass(frozen=True, slots=True)
class TypedFields:
    """Fields of a request as one command types them; see `typed_as`."""

    fields: Mapping[str, Any]


def typed_as(**changed: Any) -> TypedFields:
    """The fields that a command types in another way than their request declares, or not at all.

    Those that must be given come first.
    `Annotated[Move, typed_as(to=not_typed("home"))]` as the type of a command's parameter makes a `Move`.
    """
    for name, each in changed.items():
        each.name = name
    return TypedFields(changed)


FILLED = "filled"
"""The key of a field's metadata: what of the command line it is filled with, beside the options themselves."""


class Filling(StrEnum):
    """What a field that is no option may be filled with."""

    RECORD = "record"
    GIVEN = "given"


def command_record() -> Any:
    """A field with the recorded options of the whole command by name, as typed, for documents; see `recorded`."""
    return field(default_factory=dict, metadata={OPTION: None, FILLED: Filling.RECORD})


def options_given() -> Any:
    """A field with those options of its own dataclass that were given, flag and value, for the commands of hints."""
    return field(default=(), compare=False, metadata={OPTION: None, FILLED: Filling.GIVEN})


REPEATED: Any = list[str] | None
"""The type of an option that may be repeated."""


def texts(given: list[str] | None) -> tuple[str, ...]:
    """What a repeated option was given."""
    return tuple(given or ())
