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
command that types some fields in another way, or not at all, takes a subclass, or `Annotated[GROUP, typed_as(...)]`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from keyword import iskeyword
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_type_hints

import typer

from kafkakit.cli.completion import (
    complete_broker_ids,
    complete_group_names,
    complete_profile_names,
    complete_topic_names,
)
from kafkakit.cli.context import command_of
from kafkakit.core.options import FILLED, OPTION, RECORDED, RECORDED_WHEN, Completion, Filling, Option, TypedFields
from kafkakit.core.text import quote

P = ParamSpec("P")
R = TypeVar("R")

COMPLETIONS: Mapping[Completion, Callable[..., list[str]]] = {
    Completion.TOPICS: complete_topic_names,
    Completion.BROKERS: complete_broker_ids,
    Completion.GROUPS: complete_group_names,
    Completion.PROFILES: complete_profile_names,
}


def with_option_groups(command: Callable[P, R]) -> Callable[..., R]:
    """Expand every parameter of `command` that is typed as a dataclass into one parameter for each of its fields.

    Parameters keep the order of the signature, a group's fields the order of their declaration, those of a request
    before what it inherits; a field may be a group itself. Recorded options of all groups, as typed, fill the fields of
    `command_record`, in this order; None, False, zero and the empty text count as not given. Raises `TypeError` when
    two parameters have one name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in inspect.signature(command).parameters if _is_group(hints.get(name))}

    @wraps(command)
    def expanded(*args: Any, **given: Any) -> R:
        record = {"command": _command_of(args, given)}
        for group in groups.values():
            record.update(_record(group, given))
        made = {name: _make_group(group, given, record) for name, group in groups.items()}
        return command(*args, **{name: value for name, value in given.items() if name not in taken}, **made)

    taken = {parameter.name for group in groups.values() for parameter in _parameters_of(group)}
    parameters = _expanded_parameters(command, hints, groups)
    expanded.__signature__ = inspect.signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    expanded.__annotations__["return"] = hints.get("return")
    return expanded


def option_words(group: object) -> tuple[str, ...]:
    """The options of a group whose value is not the usual one, as typed on a command line and quoted: `--max-in 7`.

    Raises `TypeError` for an option that is read: what was typed is known to `options_given` alone.
    """
    return quoted_words(_options_of(group))


def quoted_words(given: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """Options, flag and value as in `options_given`, as typed on a command line and quoted."""
    return tuple(flag if value is None else f"{flag} {quote(value)}" for flag, value in given)


def _options_of(group: Any) -> Iterator[tuple[str, str | None]]:
    for each, kind in _options(type(group)):
        value, declared = getattr(group, each.name), _option_of(each)
        if declared is not None and declared.parse is not None and value != each.default:
            raise TypeError(f"{each.name} is not kept as it was typed")
        yield from _options_of(value) if _is_group(kind) else _flags(each, kind, value, each.default)


def _is_group(annotation: Any) -> bool:
    return is_dataclass(_request_of(annotation))


def _request_of(group: Any) -> Any:
    """The dataclass of a group that may be annotated with other fields."""
    return group.__origin__ if _changes_of(group) else group


def _changes_of(group: Any) -> "Mapping[str, Field[Any]]":
    return next((each.fields for each in get_args(group)[1:] if isinstance(each, TypedFields)), {})


def _fields(group: Any) -> "list[Field[Any]]":
    """The fields of a group, in the order of their declaration, as the command types them."""
    changed = _changes_of(group)
    return [changed.get(each.name, each) for each in fields(_request_of(group))]


def _command_of(args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """The command without the program's name; empty where a function takes no context."""
    context = given.get("ctx", args[0] if args else None)
    return command_of(context) if context is not None else ""


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
    """The fields that are typed, with their types; what a request declares itself comes before what it inherits."""
    types, own = get_type_hints(_request_of(group), include_extras=True), _own_fields(group)
    asked = [each for each in _fields(group) if each.init and each.metadata.get(OPTION, each)]
    place_of = {name: place for place, name in enumerate(own)}
    return ((each, _annotation(each, types)) for each in sorted(asked, key=lambda e: place_of.get(e.name, len(own))))


def _own_fields(group: Any) -> tuple[str, ...]:
    """The fields that a request declares itself: a group that is recorded, or has an option that must be given.

    Of a group with other fields, those of them that must be given.
    """
    if changed := _changes_of(group):
        return tuple(name for name, each in changed.items() if getattr(_option_of(each), "default", None) is ...)
    typed = {each.name: _option_of(each) for each in fields(group) if each.metadata.get(OPTION, each)}
    is_required = any(option is not None and option.default is ... for option in typed.values())
    if not is_required and not any(each.metadata.get(FILLED) for each in fields(group)):
        return ()
    declared = (tuple(vars(kind).get("__annotations__", ())) for kind in group.__mro__)
    return next((names for names in declared if typed.keys() & set(names)), ())


def _annotation(each: "Field[Any]", types: Mapping[str, Any]) -> Any:
    found, declared = types[each.name], _option_of(each)
    if declared is None:
        return found
    details = dict(declared.details)
    if declared.completion is not None:
        details["autocompletion"] = COMPLETIONS[declared.completion]
    typed = found if declared.parse is None else declared.typed
    if declared.is_argument:
        return Annotated[typed, typer.Argument(**details)]
    return Annotated[typed, typer.Option(*declared.flags, **details)]


def _typed_name(each: "Field[Any]") -> str:
    """The name of its parameter: that of the flag, as a field may say more than one types."""
    declared = _option_of(each)
    flags = () if declared is None else declared.flags
    names = (flag.partition("/")[0][2:].replace("-", "_") for flag in flags if flag.startswith("--"))
    return next((name for name in names if not iskeyword(name)), each.name)


def _option_of(each: "Field[Any]") -> Option | None:
    return each.metadata.get(OPTION)


def _make_group(group: Any, given: Mapping[str, Any], record: Mapping[str, str]) -> Any:
    unasked = {name: each.default for name, each in _changes_of(group).items() if each.default is not MISSING}
    values = unasked | {each.name: _value(each, kind, given, record) for each, kind in _options(group)}
    for each in _fields(group):
        filling = each.metadata.get(FILLED)
        if filling is Filling.RECORD:
            values[each.name] = dict(record)
        elif filling is Filling.GIVEN:
            values[each.name] = tuple(_given_options(group, given))
    return _request_of(group)(**values)


def _value(each: "Field[Any]", kind: Any, given: Mapping[str, Any], record: Mapping[str, str]) -> Any:
    if _is_group(kind):
        return _make_group(kind, given, record)
    declared, typed = _option_of(each), given[_typed_name(each)]
    return typed if declared is None or declared.parse is None else declared.parse(typed)


def _given_options(group: Any, given: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for each, kind in _options(group):
        if _is_group(kind):
            yield from _given_options(kind, given)
            continue
        declared = _option_of(each)
        default = each.default if declared is None else declared.default
        yield from _flags(each, kind, given[_typed_name(each)], default)


def _record(group: Any, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each, kind in _options(group):
        if _is_group(kind):
            yield from _record(kind, given)
        elif _is_recorded(each, given) and (word := _option_word(each, given[_typed_name(each)])):
            yield _typed_name(each).replace("_", "-"), word


def _is_recorded(each: "Field[Any]", given: Mapping[str, Any]) -> bool:
    when = each.metadata.get(RECORDED_WHEN)
    return bool(each.metadata.get(RECORDED)) and (when is None or when(given))


def _option_word(each: "Field[Any]", value: Any) -> str:
    recorded = each.metadata[RECORDED]
    if callable(recorded):
        value = recorded(value)
    return "" if value in ("", None, 0, False) else "true" if value is True else str(value)


def _flags(each: "Field[Any]", annotation: Any, value: Any, default: Any) -> Iterator[tuple[str, str | None]]:
    if value in (default, None, "", []):
        return
    flag = _flag(each.name, annotation)
    if value is True:
        yield flag, None
        return
    for item in value if isinstance(value, (list, tuple)) else [value]:
        yield flag, str(item)


def _parameters_of(group: Any) -> Iterator[inspect.Parameter]:
    for each, kind in _options(group):
        yield from _parameters_of(kind) if _is_group(kind) else (_parameter(each, kind),)


def _parameter(field: "Field[Any]", annotation: Any) -> inspect.Parameter:
    declared = _option_of(field)
    default = field.default if declared is None else declared.default
    kept = inspect.Parameter.empty if default in (MISSING, ...) else default
    return inspect.Parameter(_typed_name(field), inspect.Parameter.KEYWORD_ONLY, default=kept, annotation=annotation)
