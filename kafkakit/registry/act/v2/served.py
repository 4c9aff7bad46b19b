"""Both versions of the service as one, for listeners."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.core.rpc import RpcAnswer
from kafkakit.ports.rpc import Answer, GrpcService, MessageCodec
from kafkakit.registry.act.service import RegistryService
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.v2.health import HEALTH, Health
from kafkakit.registry.act.v2.notices import Notices
from kafkakit.registry.act.v2.service import PortsV2, ServiceV2, TranslateV2
from kafkakit.registry.act.v2.tag_writes import TagWrites
from kafkakit.registry.act.v2.watches import HEARTBEAT_S, Watches
from kafkakit.registry.act.writes import Writes
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.requests import RPC_BY_NAME, SERVICE
from kafkakit.registry.decide.v2.calls import CALL_V2_BY_NAME, CALLS_V2, SERVICE_V2
from kafkakit.registry.decide.v2.events import MAX_EVENTS, EventLog
from kafkakit.registry.decide.v2.reads import ReadsV2


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is listened for."""

    first: RegistryService
    http: Answer
    grpc_services: tuple[GrpcService, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsV2:
    """What version 2 shares with version 1, its codecs, and its limits."""

    inventory: Inventory
    writes: Writes
    tags: TagStore
    codec: MessageCodec
    health_codec: MessageCodec
    page: Callable[[str], RpcAnswer]
    translate: TranslateV2
    most_events: int = MAX_EVENTS
    heartbeat_s: float = HEARTBEAT_S


def serve_both(first: RegistryService, parts: PartsV2) -> Served:
    """Version 2 beside version 1, and health checks of both."""
    inventory = parts.inventory
    reads = ReadsV2(inventory, EventLog(secrets.token_hex(4), most=parts.most_events))
    watches = Watches(inventory, reads.events, reads.selection, heartbeat_s=parts.heartbeat_s)
    notices = Notices(parts.tags.history)
    inventory.followers.append(notices.take)
    ports = PortsV2(
        codec=parts.codec,
        writes=TagWrites(parts.writes, parts.tags, inventory),
        history=parts.tags.history,
        replies=parts.tags.replies,
        watches=watches,
        translate=parts.translate,
        page=parts.page,
    )
    second = ServiceV2(first, inventory, reads, ports)
    health = Health(parts.health_codec, lambda: first.is_fresh)
    first.at_new_callers.append(watches.renew)
    first.at_stop += [watches.close, notices.stop, health.close]
    return Served(
        first=first,
        http=second.http,
        grpc_services=(
            GrpcService(name=SERVICE, methods=RPC_BY_NAME, answer=first.grpc),
            GrpcService(
                name=SERVICE_V2,
                methods=CALL_V2_BY_NAME,
                answer=second.grpc,
                streams=[call.name for call in CALLS_V2 if call.is_stream],
            ),
            GrpcService(name=HEALTH, methods=("Check", "Watch"), answer=health.grpc, streams=("Watch",)),
        ),
    )
