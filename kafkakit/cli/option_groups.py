"""Groups of options as frozen dataclasses: declared once, expanded into a command's signature, handed on as values.

A command takes the group as one parameter:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Consent:
        yes: bool = option(False, "--yes", "-y", help="Do not ask.")

    @app.command("apply", cls=CliCommand)
    @with_option_groups
    def apply(ctx: typer.Context, plan_file: PlanFile, consent: Consent) -> None: ...

Typer then sees `--yes` among the options of `apply`. `option` and its siblings are those of `kafkakit.core.options`. A
field that several groups have, or that has no default, may be typed `Annotated[TYPE, typer.Option(...)]` instead. A
command whose default differs takes a subclass that overrides the field's default.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

import typer

from kafkakit.cli.completion import complete_broker_ids, complete_group_names, complete_topic_names
from kafkakit.core.options import OPTION, RECORDED, Completion, Option
from kafkakit.core.text import quote

P = ParamSpec("P")
R = TypeVar("R")

IS_RECORDED: Mapping[str, object] = {RECORDED: True}
"""Metadata of a field whose value is recorded as a word of the request: `field(default="", metadata=IS_RECORDED)`."""

COMPLETIONS: Mapping[Completion, Callable[..., list[str]]] = {
    Completion.TOPICS: complete_topic_names,
    Completion.BROKERS: complete_broker_ids,
    Completion.GROUPS: complete_group_names,
}


def recorded_as(word: Callable[[Any], str]) -> Mapping[str, object]:
    """Metadata of a field that is recorded in a form of its own: `word` makes it, and the empty text leaves it out."""
    return {RECORDED: word}


def with_option_groups(command: Callable[P, R]) -> Callable[..., R]:
    """Expand every parameter of `command` that is typed as a dataclass into one parameter for each of its fields.

    Parameters keep the order of the signature, a group's fields the order of their declaration; a field may be a group
    itself, and one with `init=False` is no option. Raises `TypeError` when two parameters have one name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hints[name] for name in inspect.signature(command).parameters if is_dataclass(hints.get(name, object))
    }

    @wraps(command)
    def expanded(*args: Any, **given: Any) -> R:
        made = {name: _made(group, given) for name, group in groups.items()}
        return command(*args, **given, **made)

    parameters = _expanded_parameters(command, hints, groups)
    expanded.__signature__ = inspect.signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    expanded.__annotations__["return"] = hints.get("return")
    return expanded


def recorded_words(command: str, *groups: object) -> dict[str, str]:
    """The recorded options of `groups` as words for a document, in the order of their fields; empty ones left out.

    None, False, zero and the empty text count as not given; a field that means something by its zero makes its word
    itself (`recorded_as`). Those of a group in a group come in its place.
    """
    words = {"command": command}
    for group in groups:
        for each in fields(group):  # type: ignore[arg-type]
            recorded = each.metadata.get(RECORDED)
            value = getattr(group, each.name)
            if is_dataclass(value):
                words |= recorded_words(command, value)
                continue
            if callable(recorded):
                value = recorded(value)
            if recorded and value not in ("", None, 0, False):
                words[each.name.replace("_", "-")] = "true" if value is True else str(value)
    return words


def option_words(group: object) -> tuple[str, ...]:
    """The options of a group whose value is not the usual one, as typed on a command line and quoted: `--max-in 7`."""
    return tuple(flag if value is None else f"{flag} {quote(value)}" for flag, value in given_options(group))


def given_options(group: object) -> tuple[tuple[str, str | None], ...]:
    """The options of a group whose value is not the usual one, for a `ShellCommand`; None is the value of a switch."""
    types = get_type_hints(type(group), include_extras=True)
    found: list[tuple[str, str | None]] = []
    for each in fields(group):  # type: ignore[arg-type]
        value = getattr(group, each.name)
        if is_dataclass(value):  # a group in the group
            found += given_options(value)
            continue
        if value in (each.default, None, "", []):
            continue
        flag = _flag(each.name, _annotation(each, types))
        values = value if isinstance(value, (list, tuple)) else [value]
        found += [(flag, None)] if value is True else [(flag, str(item)) for item in values]
    return tuple(found)


def _flag(name: str, annotation: Any) -> str:
    option = annotation.__metadata__[0]
    names = (str(word).partition("/")[0] for word in (option.default, *(option.param_decls or ())))
    return next((word for word in names if word.startswith("--")), f"--{name.replace('_', '-')}")


def _expanded_parameters(
    command: Callable[..., object], hints: Mapping[str, Any], groups: Mapping[str, Any]
) -> list[inspect.Parameter]:
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints.get(name, parameter.annotation)))
    names = [parameter.name for parameter in parameters]
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TypeError(f"{command.__name__} takes {', '.join(twice)} twice")
    return [*parameters[:1], *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[1:])]


def _options(group: Any) -> "Iterator[tuple[Field[Any], Any]]":
    types = get_type_hints(group, include_extras=True)
    return ((each, _annotation(each, types)) for each in fields(group) if each.init and each.metadata.get(OPTION, each))


def _annotation(each: "Field[Any]", types: Mapping[str, Any]) -> Any:
    found, declared = types[each.name], _declared(each)
    if declared is None:
        return found
    details = dict(declared.details)
    if declared.completion is not None:
        details["autocompletion"] = COMPLETIONS[declared.completion]
    typed = found if declared.parse is None else declared.typed
    return Annotated[typed, typer.Option(*declared.flags, **details)]


def _declared(each: "Field[Any]") -> Option | None:
    return each.metadata.get(OPTION)


def _made(group: Any, given: dict[str, Any]) -> Any:
    return group(**{each.name: _value(each, kind, given) for each, kind in _options(group)})


def _value(each: "Field[Any]", kind: Any, given: dict[str, Any]) -> Any:
    if is_dataclass(kind):
        return _made(kind, given)
    declared, typed = _declared(each), given.pop(each.name)
    return typed if declared is None or declared.parse is None else declared.parse(typed)


def _parameters_of(group: Any) -> Iterator[inspect.Parameter]:
    for each, kind in _options(group):
        yield from _parameters_of(kind) if is_dataclass(kind) else (_parameter(each, kind),)


def _parameter(field: "Field[Any]", annotation: Any) -> inspect.Parameter:
    declared = _declared(field)
    default = field.default if declared is None else declared.default
    kept = inspect.Parameter.empty if default in (MISSING, ...) else default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=kept, annotation=annotation)
