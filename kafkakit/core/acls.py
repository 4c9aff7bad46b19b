"""Access control lists as values: Kafka's bindings of a resource pattern to what a principal may do."""

from dataclasses import dataclass
from enum import StrEnum


class AclResourceKind(StrEnum):
    """What a binding is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"
    DELEGATION_TOKEN = "delegation_token"
    USER = "user"


class AclPattern(StrEnum):
    """How a binding's name is compared with a resource's; the literal name `*` concerns every resource of the kind."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclOperation(StrEnum):
    """What is permitted or denied; UNKNOWN is one that a newer Kafka has."""

    UNKNOWN = "unknown"
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"
    CREATE_TOKENS = "create_tokens"
    DESCRIBE_TOKENS = "describe_tokens"
    TWO_PHASE_COMMIT = "two_phase_commit"


class AclPermission(StrEnum):
    """A denial outweighs every permission; super users are denied nothing."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AclBinding:
    """One binding; all of its fields together identify it. `principal` is `User:NAME`, `host` an address or `*`."""

    kind: AclResourceKind
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission
    pattern: AclPattern = AclPattern.LITERAL
    host: str = "*"
