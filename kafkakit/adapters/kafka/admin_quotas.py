"""DescribeClientQuotas and AlterClientQuotas, built from kafkakit's values, and their answers, one an entity."""

from typing import Any

from kafkakit.adapters.kafka.admin_write import UNANSWERED
from kafkakit.adapters.kafka.errors import error_of
from kafkakit.core.client_quotas import QuotaChanges, QuotaDefault, QuotaEntity, Quotas
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError

_USER, _CLIENT_ID = "user", "client-id"


def quotas_request() -> Any:
    """DescribeClientQuotas of all entities."""
    from kafka.protocol.admin import DescribeClientQuotasRequest

    return DescribeClientQuotasRequest(components=[], strict=False)


def quotas_of(response: Any) -> Quotas:
    """The values that are set; raises `OperationFailedError` for a refusal, which is no empty answer."""
    if response.error_code:
        raise OperationFailedError(f"read client quotas: {error_of(response.error_code, response.error_message)}")
    found = {}
    for entry in response.entries or ():
        entity = _entity_of(entry)
        if entity is not None and entry.values:
            found[entity] = {value.key: value.value for value in entry.values}
    return found


def change_request(changes: QuotaChanges) -> Any:
    """AlterClientQuotas."""
    from kafka.protocol.admin import AlterClientQuotasRequest as Request

    entry = Request.EntryData
    return Request(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=None if isinstance(name, QuotaDefault) else name)
                    for kind, name in ((_USER, entity.user), (_CLIENT_ID, entity.client_id))
                    if name is not None
                ],
                ops=[
                    entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ],
        validate_only=False,
    )


def change_results(response: Any, changes: QuotaChanges) -> dict[QuotaEntity, ItemError | None]:
    """Per entity, in the order requested."""
    reported = {_entity_of(entry): error_of(entry.error_code, entry.error_message) for entry in response.entries}
    return {entity: reported.get(entity, UNANSWERED) for entity in changes}


def _entity_of(entry: Any) -> QuotaEntity | None:
    """None for an entity of another kind: an address."""
    names = {
        part.entity_type: QuotaDefault.DEFAULT if part.entity_name is None else part.entity_name
        for part in entry.entity
    }
    if not names or set(names) - {_USER, _CLIENT_ID}:
        return None
    return QuotaEntity(user=names.get(_USER), client_id=names.get(_CLIENT_ID))
