"""What every planning command does around its decision: read the cluster, record the flags, name the next command."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkakit.cli.command_classes import KitCommand, KitGroup

if TYPE_CHECKING:
    from kafkakit.cli.command_classes import Kit
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.core.plan import Plan
    from kafkakit.topicmappr.act.observation import Observed
    from kafkakit.topicmappr.decide.size_source import SizesFrom

# What Go's strconv.ParseBool takes.
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


# kafka-kit's flags of the root command, which may stand before the command's name; all but the last take a value.
_PERSISTENT = ("--kafka-addr", "--zk-addr", "--zk-prefix", "--zk-metrics-prefix", "--ignore-warns")


class KafkaKitGroup(KitGroup):
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


class KafkaKitCommand(KitCommand):
    """A command of kafka-kit's: takes Go's spelling of switches too, `--use-meta=false` and `--skip-no-ops=true`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite Go's spelling into plain switches, then parse."""
        return super().parse_args(ctx, _plain_switches(args, self.params))


def _plain_switches(args: Sequence[str], params: Sequence[Any]) -> list[str]:
    on = {name: param for param in params if getattr(param, "is_flag", False) for name in param.opts}
    plain: list[str] = []
    for position, arg in enumerate(args):
        if arg == "--":
            return [*plain, *args[position:]]
        name, _, value = arg.partition("=")
        if name in on and value in _TRUE:
            plain.append(name)
        elif name in on and value in _FALSE:
            plain += on[name].secondary_opts[:1]  # a switch without an opposite is off when it is not given
        else:
            plain.append(arg)
    return plain


def recorded(command: str, given: Mapping[str, object], names: Sequence[str]) -> dict[str, str]:
    """The flags that shape the plan, as given, for its record; empty ones left out."""
    words = {"command": command}
    for name in names:
        value = given[name]
        if value not in ("", None, 0, False):
            words[name.replace("_", "-")] = "true" if value is True else str(value)
    return words


def observe(kit: "Kit", path: Path | None, *, sound_lists: bool = True) -> "ClusterSnapshot":
    """Read the cluster now, or the snapshot file at `path`, whose replica lists must be sound unless told."""
    from kafkakit.cli.session import open_session
    from kafkakit.topicmappr.act import observation

    with open_session(kit, read_only=True) as session:
        return observation.observe(session, path, sound_lists=sound_lists)


def observe_storage(
    kit: "Kit",
    path: Path | None,
    *,
    sizes_from: "SizesFrom",
    zk_addr: str,
    zk_metrics_prefix: str,
    metrics_age: int | None,
    sound_lists: bool = True,
) -> "Observed":
    """Read the cluster (or the file) with sizes from where they are wanted, and refuse sizes that are too old."""
    from kafkakit.cli.session import open_session
    from kafkakit.topicmappr.act import observation
    from kafkakit.topicmappr.decide.size_source import SizeChoice

    wanted = SizeChoice(
        sizes_from=sizes_from, zk_addr=zk_addr, zk_metrics_prefix=zk_metrics_prefix, metrics_age=metrics_age
    )
    with open_session(kit, read_only=True) as session:
        return observation.observe_storage(session, path, wanted, sound_lists=sound_lists)


def next_command(kit: "Kit", plan: "Plan", saved: str | None) -> str | None:
    """The command that carries a saved plan out; None when there is nothing to carry out."""
    from shlex import quote

    if not saved or not (plan.moves or plan.dir_moves):
        return None
    return f"{kit.program} reassign apply {quote(saved)}"
