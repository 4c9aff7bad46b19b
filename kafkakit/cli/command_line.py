"""The options that stood on a command line, as words of a line to paste."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import typer

from kafkakit.core.text import quote

_NOT_REPEATED = ("yes", "dry_run", "replan")


def given_words(ctx: typer.Context, leave_out: Collection[str] = ()) -> list[str]:
    """The options of this command that stood on its command line, quoted; no arguments.

    `--yes` and options that hold for one call only are left out, and so are the parameters named in `leave_out`.
    """
    words: list[str] = []
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if param.param_type_name != "option" or name in _NOT_REPEATED or name in leave_out:
            continue
        if source is None or source.name != "COMMANDLINE" or name not in ctx.params:
            continue
        words += _option_words(param, ctx.params[name])
    return words


def _option_words(param: Any, value: Any) -> list[str]:
    if getattr(param, "is_flag", False):
        flag = param.opts[0] if value else next(iter(param.secondary_opts), None)
        return [flag] if flag else []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [word for v in values for word in (param.opts[0], quote(str(getattr(v, "value", v))))]
