"""The options of commands that use a registry: a server, or the cluster and its store of tags.

Also here: options of a new topic, files of wanted tags, and shell completion of tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import (
    BROKER_CHOICE,
    BROKER_IDS,
    TOPIC_CHOICE,
    TOPIC_SETTING,
    complete_names,
    complete_topic_names,
)
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.registry.commands.serve import TagPlace, open_audit_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.run_options import Consent
    from kafkakit.config.read.settings import Settings
    from kafkakit.registry.client import RegistryClient
    from kafkakit.registry.decide.desired_tags import BrokerEntry, DesiredTags, PlannedChanges, TagChange, TopicEntry
    from kafkakit.registry.decide.requests import CreateRequest
    from kafkakit.registry.decide.tags import ObjectKind, Tags
    from kafkakit.streams.model.mirrormaker import OffsetSync


def complete_tags(ctx: typer.Context, incomplete: str) -> list[str]:
    """`key:value` texts in use that begin with what is typed."""
    return complete_names(ctx, "tags", incomplete, _read_tags)


def complete_tag_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """The keys of tags in use that begin with what is typed."""
    found = complete_names(ctx, "tags", incomplete, _read_tags)
    return sorted({text.partition(":")[0] for text in found})


def _read_tags(ctx: typer.Context, cli: CliContext, settings: Settings) -> list[str]:
    from kafkakit.cli.session import open_session
    from kafkakit.registry.client import connect
    from kafkakit.registry.decide.tags import ObjectKind

    given = ctx.params
    if given.get("server"):
        files = {f"{name}_file": given.get(f"client_{name}_file") for name in ("token", "ca", "cert", "key")}
        with connect(given["server"], timeout_s=1, **files) as client:
            return _texts([t.tags for t in client.topics().values()] + [b.tags for b in client.brokers().values()])
    place = TagPlace(zk_addr=given.get("zk_addr"), zk_tags_prefix=given.get("zk_tags_prefix") or "registry")
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        store = place.open(session, 1)
        return _texts([tags for kind in ObjectKind for tags in store.all(kind, []).values()])


def _texts(found: Iterable[Tags]) -> list[str]:
    return sorted({f"{key}:{value}" for tags in found for key, value in tags.items()})


TagTexts = Annotated[
    list[str],
    typer.Argument(metavar="KEY:VALUE...", help="The tags to set.", autocompletion=complete_tags, show_default=False),
]
TagKeys = Annotated[
    list[str],
    typer.Argument(metavar="KEY...", help="The keys to delete.", autocompletion=complete_tag_keys, show_default=False),
]
TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=complete_topic_names, show_default=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPlace:
    """Which registry: a server over HTTP, else the profile's cluster with its store of tags."""

    server: str | None = option(
        None,
        "--server",
        envvar="REGISTRY_SERVER",
        metavar="URL",
        help="Use this registry (kafka-kit's also works), such as https://registry:8080; without it the profile's "
        "cluster and its store of tags are used directly.",
    )
    client_token_file: Path | None = option(
        None, "--token-file", envvar="REGISTRY_CLIENT_TOKEN_FILE", metavar="FILE", help="With --server: a bearer token."
    )
    client_ca_file: Path | None = option(
        None, "--ca-file", envvar="REGISTRY_CLIENT_CA_FILE", metavar="FILE", help="With --server: CA certificates, PEM."
    )
    client_cert_file: Path | None = option(
        None,
        "--cert-file",
        envvar="REGISTRY_CLIENT_CERT_FILE",
        metavar="FILE",
        help="With --server: client certificate, PEM.",
    )
    client_key_file: Path | None = option(
        None,
        "--key-file",
        envvar="REGISTRY_CLIENT_KEY_FILE",
        metavar="FILE",
        help="With --server: client private key, PEM.",
    )
    place: TagPlace

    @contextmanager
    def open(self, cli: CliContext, *, read_only: bool = True) -> Iterator[RegistryClient]:
        """The registry; clients of the cluster refuse to change topics where it is `read_only`."""
        from kafkakit.registry.client import connect

        if self.server is not None:
            self._refuse_other_places()
            with connect(
                self.server,
                token_file=self.client_token_file,
                ca_file=self.client_ca_file,
                cert_file=self.client_cert_file,
                key_file=self.client_key_file,
            ) as client:
                yield client
            return
        if self.client_token_file or self.client_ca_file or self.client_cert_file or self.client_key_file:
            raise UsageError("--token-file, --ca-file, --cert-file and --key-file need --server")
        self.place.apply(cli)
        with ExitStack() as stack:
            yield open_local(cli, self.place, stack, read_only=read_only)

    def _refuse_other_places(self) -> None:
        if (self.client_cert_file is None) != (self.client_key_file is None):
            raise UsageError("--cert-file and --key-file belong together")
        if self.place.enable_locking:
            raise UsageError("--enable-locking is for the store of tags, which a server changes itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlace:
    """Where MirrorMaker 2 keeps its offset syncs, if not on this cluster."""

    upstream: str | None = option(
        None,
        "--upstream",
        metavar="PROFILE",
        help="Read offset syncs from the cluster of this profile; MirrorMaker 2 keeps them there unless "
        "offset-syncs.topic.location is target.",
    )
    local_alias: str | None = option(
        None, "--local-alias", metavar="NAME", help="With --upstream: MirrorMaker 2's alias of the local cluster."
    )

    def read(self, cli: CliContext) -> list[OffsetSync] | None:
        """The syncs; None where the local cluster is to be looked at. `UsageError` where there is no such topic."""
        from kafkakit.cli.session import open_session
        from kafkakit.registry.act.local_calls import LIMIT_S, read_syncs
        from kafkakit.registry.decide.offsets import sync_topic

        if (self.upstream is None) != (self.local_alias is None):
            raise UsageError("--upstream and --local-alias belong together")
        if self.upstream is None or self.local_alias is None:
            return None
        topic = sync_topic(self.local_alias)
        with open_session(cli, read_only=True, settings=cli.load_settings(self.upstream)) as session:
            found = read_syncs(session.data, topic, LIMIT_S)
        if found is None:
            raise UsageError(
                f"the cluster of profile {self.upstream} has no topic {topic}",
                hint="--local-alias is what MirrorMaker 2's configuration calls the local cluster",
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChoice:
    """Which topics and brokers."""

    topics: str | None = option(
        None, "--topics", **TOPIC_CHOICE, help="Topics, such as 'where team = \"pay\" and partitions > 6'."
    )
    brokers: str | None = option(None, "--brokers", **BROKER_CHOICE, help="Brokers, such as 'where rack in (a, b)'.")

    @property
    def is_exact(self) -> bool:
        """Whether every object is named."""
        from kafkakit.registry.decide.desired_tags import is_exact
        from kafkakit.registry.decide.tags import ObjectKind as Kinds

        given = ((Kinds.TOPIC, self.topics), (Kinds.BROKER, self.brokers))
        return all(is_exact(kind, text) for kind, text in given if text)

    def setting(self, client: RegistryClient, given: Sequence[str]) -> PlannedChanges:
        """The changes that set `KEY:VALUE` texts."""
        from kafkakit.registry.decide.desired_tags import changes_setting
        from kafkakit.registry.decide.tags import require_tag_texts, tags_to_set

        require_tag_texts(given)
        return self._planned(client, lambda k, names, tags: changes_setting(k, names, tags, tags_to_set(k, given)))

    def deleting(self, client: RegistryClient, given: Sequence[str]) -> PlannedChanges:
        """The changes that delete keys."""
        from kafkakit.registry.decide.desired_tags import changes_deleting
        from kafkakit.registry.decide.tags import keys_to_delete

        keys = keys_to_delete(given)
        return self._planned(client, lambda k, names, tags: changes_deleting(k, names, tags, keys))

    def _planned(
        self,
        client: RegistryClient,
        make: Callable[[ObjectKind, tuple[str, ...], dict[str, Tags]], tuple[TagChange, ...]],
    ) -> PlannedChanges:
        from kafkakit.core.selection import query_of
        from kafkakit.registry.decide.desired_tags import PlannedChanges, choose_names, named_brokers, not_live, tags_of
        from kafkakit.registry.decide.tags import ObjectKind as Kinds

        if not self.topics and not self.brokers:
            raise UsageError("no topics or brokers given", hint="pass --topics or --brokers")
        found: list[TagChange] = []
        down: dict[int, BrokerEntry] = {}
        if self.topics:
            topics = client.topics()
            found += make(Kinds.TOPIC, choose_names(Kinds.TOPIC, self.topics, topics), tags_of(topics))
        if self.brokers:
            brokers = client.brokers()
            named = self.brokers.split(",") if query_of(self.brokers) is None else ()
            down = client.down_brokers(named_brokers(named) - brokers.keys())
            brokers |= down
            found += make(Kinds.BROKER, choose_names(Kinds.BROKER, self.brokers, brokers), tags_of(brokers))
        return PlannedChanges(changes=tuple(found), warnings=not_live(down))


def open_local(cli: CliContext, place: TagPlace, stack: ExitStack, *, read_only: bool) -> RegistryClient:
    """The registry without a server: this process reads the cluster and changes the store of tags."""
    from kafkakit.cli.session import open_session
    from kafkakit.execution.act.retrier import mark_cordoned
    from kafkakit.registry.act.local_calls import LIMIT_S, LocalCalls
    from kafkakit.registry.client import RegistryClient

    session = stack.enter_context(open_session(cli, read_only=read_only))
    tags = place.open(session, LIMIT_S)
    return RegistryClient(
        LocalCalls(
            session.admin,
            tags,
            session.clock,
            lambda: session.data,
            open_audit_log(session),
            session.requester,
            cli.output.warn,
            lambda snapshot: mark_cordoned(snapshot, lambda: session.control_view, cli.output.warn, session.admin),
        )
    )


def end_changes(
    cli: CliContext,
    client: RegistryClient,
    command: str,
    plan: PlannedChanges,
    consent: Consent,
    *,
    asks: bool,
) -> int:
    """Show the changes, ask where `asks`, make them, and end with the report."""
    from kafkakit.cli.session import finish
    from kafkakit.registry.client import apply_changes
    from kafkakit.registry.report import DECLINED, PLANNED, changes_report, diff_lines, planned_outcomes

    changes, warnings = plan.changes, plan.warnings
    if consent.dry_run or not changes:
        return finish(cli, changes_report(command, planned_outcomes(changes, PLANNED), warnings))
    if asks and not consent.yes:
        cli.output.say("\n".join(diff_lines(changes)))
        if not consent.confirm(cli, f"Change the tags of {len(changes)} objects?"):
            return finish(cli, changes_report(command, planned_outcomes(changes, DECLINED), warnings))
    with cli.output.progress("changing tags") as bar:
        outcomes = apply_changes(client, changes, bar)
    return finish(cli, changes_report(command, outcomes, warnings))


def listed_topics(client: RegistryClient, names: str | None, *, with_replicas: bool) -> list[TopicEntry]:
    """The topics that a text means, all of them without one."""
    from kafkakit.registry.decide.desired_tags import choose_names
    from kafkakit.registry.decide.tags import ObjectKind

    topics = client.topics(with_replicas=with_replicas)
    return (
        list(topics.values())
        if names is None
        else [topics[name] for name in choose_names(ObjectKind.TOPIC, names, topics)]
    )


def listed_brokers(client: RegistryClient, names: str | None) -> list[BrokerEntry]:
    """The brokers that a text means, all of them without one."""
    from kafkakit.registry.decide.desired_tags import choose_names
    from kafkakit.registry.decide.tags import ObjectKind

    brokers = client.brokers()
    return (
        list(brokers.values())
        if names is None
        else [brokers[int(n)] for n in choose_names(ObjectKind.BROKER, names, brokers)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicOptions:
    """What a new topic is, and which brokers may hold it."""

    partitions: int = option(1, "--partitions", min=1, help="Number of partitions.")
    replication: int = option(3, "--replication", min=1, help="Replicas of each partition.")
    configs: list[str] | None = option(None, "--topic-config", **TOPIC_SETTING)
    tags: list[str] | None = option(
        None, "--tag", metavar="KEY:VALUE", help="A tag. Repeatable.", autocompletion=complete_tags
    )
    target_tags: list[str] | None = option(
        None,
        "--target-tag",
        metavar="KEY:VALUE",
        help="Only brokers with this tag. Repeatable.",
        autocompletion=complete_tags,
    )
    target_brokers: str | None = option(None, "--target-brokers", **BROKER_IDS, help="Only these brokers.")

    def request(self, name: str) -> CreateRequest:
        """The request; raises `UsageError` for a text that cannot be read."""
        from kafkakit.registry.decide.requests import CreateRequest, read_creation
        from kafkakit.registry.decide.tags import ObjectKind, require_tag_texts, tags_to_set

        require_tag_texts((*(self.tags or ()), *(self.target_tags or ())))
        ids = [text.strip() for text in (self.target_brokers or "").split(",") if text.strip()]
        if not all(text.isascii() and text.isdigit() and len(text) <= 10 for text in ids):
            raise UsageError(f"--target-brokers {self.target_brokers!r:.100} is not a list of ids")
        configs = dict(text.partition("=")[::2] for text in self.configs or ())
        if any("=" not in text for text in self.configs or ()):
            raise UsageError("--topic-config must be KEY=VALUE")
        request = CreateRequest(
            topic={
                "name": name,
                "partitions": self.partitions,
                "replication": self.replication,
                "configs": configs,
                "tags": tags_to_set(ObjectKind.TOPIC, self.tags) if self.tags else {},
            },
            target_broker_tags=tuple(self.target_tags or ()),
            target_broker_ids=tuple(map(int, ids)),
        )
        read_creation(request)
        return request

    def check(self, client: RegistryClient, request: CreateRequest) -> tuple[str, ...]:
        """Notes about the placement; raises `UsageError` where the topic exists, or too few brokers may hold it."""
        from kafkakit.placement.problem import rackless_note

        name = str(request.topic and request.topic["name"])
        if name in client.topic_names():
            raise UsageError(f"topic {name} exists already")
        brokers = client.brokers(request.target_broker_tags)
        fit = set(request.target_broker_ids) & set(brokers) if request.target_broker_ids else set(brokers)
        if wrong := sorted(set(request.target_broker_ids) - fit):
            raise UsageError(f"not alive, or without the tags: broker {', '.join(map(str, wrong))}")
        if len(fit) < self.replication:
            raise UsageError(f"{len(fit)} brokers may hold the topic: too few for {self.replication} replicas")
        every = client.brokers() if request.target_broker_tags else brokers
        return rackless_note(fit, {broker.id: broker.rack for broker in every.values()})


def existing_topic(client: RegistryClient, name: str) -> TopicEntry:
    """The topic of a name; `UsageError` names the nearest where there is none."""
    from kafkakit.registry.decide.desired_tags import exact_names
    from kafkakit.registry.decide.tags import ObjectKind

    topics = client.topics()
    exact_names(ObjectKind.TOPIC, [name], topics)
    return topics[name]


def require_object(client: RegistryClient, kind: ObjectKind, name: str) -> None:
    """Raise `UsageError` for a topic, or a broker that is neither live nor known by its tags or replicas."""
    from kafkakit.registry.decide import tags
    from kafkakit.registry.decide.desired_tags import exact_names

    if kind is tags.ObjectKind.TOPIC:
        existing_topic(client, name)
    elif not client.down_brokers([int(name)]):
        exact_names(kind, [name], client.brokers())


def read_prefixes(prune: Sequence[str] | None) -> tuple[str, ...]:
    """The prefixes of `--prune`; `UsageError` for an empty one, which all keys begin with."""
    if prune and not all(prune):
        raise UsageError("--prune: the prefix is empty, so every other tag would be deleted")
    return tuple(prune or ())


def desired_changes(client: RegistryClient, desired: DesiredTags, prefixes: Sequence[str]) -> PlannedChanges:
    """What has to change for the rules, on the objects as they are now."""
    from kafkakit.registry.decide.desired_tags import brokers_named, plan_desired
    from kafkakit.registry.decide.tags import ObjectKind

    topics = client.topics() if ObjectKind.TOPIC in desired.rules else {}
    brokers = client.brokers() if ObjectKind.BROKER in desired.rules else {}
    down = client.down_brokers(brokers_named(desired) - brokers.keys())
    return plan_desired(desired, topics, brokers, down, prefixes)
