"""Command classes that take the command lines of kafka-kit's scripts: flags before the command, Go's switches."""

from collections.abc import Collection, Sequence
from typing import Any

from kafkakit.cli.command_classes import CliCommand, CliGroup, cli_context

# What Go's strconv.ParseBool takes.
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


# kafka-kit's flags of the root command, which may stand before the command's name; all but the last take a value.
_PERSISTENT = ("--kafka-addr", "--zk-addr", "--zk-prefix", "--zk-metrics-prefix", "--ignore-warns")


class KafkaKitGroup(CliGroup):
    """The group of kafka-kit's commands: takes its root flags before the command's name, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put root flags after the command's name, then parse."""
        return super().parse_args(ctx, _flags_after_command(args, self.commands))


def _flags_after_command(args: Sequence[str], commands: Collection[str]) -> list[str]:
    kept: list[str] = []
    moved: list[str] = []
    waiting = list(args)
    while waiting and waiting[0] not in commands:
        arg = waiting.pop(0)
        name, given, _ = arg.partition("=")
        if name not in _PERSISTENT:
            kept.append(arg)
            continue
        moved.append(arg)
        if not given and name != _PERSISTENT[-1] and waiting:
            moved.append(waiting.pop(0))
    if not waiting:
        return list(args)
    return [*kept, waiting[0], *moved, *waiting[1:]]


class KafkaKitCommand(CliCommand):
    """A command of kafka-kit's: takes Go's spelling too, `--use-meta=false`, `--skip-no-ops=true` and `-min-rate 5`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite Go's spelling into plain switches, parse, and take kafka-kit's addresses for the cluster's."""
        rest = super().parse_args(ctx, _plain_switches(args, self.params))
        cli = cli_context(ctx)
        for name, take in (("kafka_addr", cli.use_bootstrap_server), ("zk_addr", cli.use_zookeeper)):
            source = ctx.get_parameter_source(name)
            if ctx.params.get(name) and source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
                is_flag = source.name == "COMMANDLINE"
                flag = f"--{name.replace('_', '-')}"
                variable = next(p.envvar for p in self.params if p.name == name)
                take(ctx.params[name], f"flag {flag}" if is_flag else f"env {variable}")
        return rest


def _plain_switches(args: Sequence[str], params: Sequence[Any]) -> list[str]:
    on = {name: param for param in params if getattr(param, "is_flag", False) for name in param.opts}
    known = {name for param in params for name in param.opts if name.startswith("--")}
    plain: list[str] = []
    for position, given in enumerate(args):
        if given == "--":
            return [*plain, *args[position:]]
        arg = f"-{given}" if f"-{given.partition('=')[0]}" in known else given
        name, _, value = arg.partition("=")
        if name in on and value in _TRUE:
            plain.append(name)
        elif name in on and value in _FALSE:
            plain += on[name].secondary_opts[:1]  # a switch without an opposite is off when it is not given
        else:
            plain.append(arg)
    return plain
