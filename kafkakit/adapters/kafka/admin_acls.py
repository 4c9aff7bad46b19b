"""DescribeAcls, CreateAcls and DeleteAcls, built from kafkakit's values, and their answers, one a binding."""

from collections.abc import Collection
from typing import Any

from kafkakit.adapters.kafka.admin_write import UNANSWERED
from kafkakit.adapters.kafka.errors import CLUSTER_DENIED, error_of, refused
from kafkakit.core.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResourceKind
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError

SECURITY_DISABLED = 54
ANY, MATCH = 1, 2
KIND_CODE = {
    AclResourceKind.TOPIC: 2,
    AclResourceKind.GROUP: 3,
    AclResourceKind.CLUSTER: 4,
    AclResourceKind.TRANSACTIONAL_ID: 5,
    AclResourceKind.DELEGATION_TOKEN: 6,
    AclResourceKind.USER: 7,
}
PATTERN_CODE = {AclPattern.LITERAL: 3, AclPattern.PREFIXED: 4}
PERMISSION_CODE = {AclPermission.DENY: 2, AclPermission.ALLOW: 3}
# Kafka's codes of operations are in the order of the enumeration, after 1, which means any in filters.
OPERATION_CODE = {operation: code for code, operation in enumerate(AclOperation, 1)} | {AclOperation.UNKNOWN: 0}
_KINDS = {code: kind for kind, code in KIND_CODE.items()}
_PATTERNS = {code: pattern for pattern, code in PATTERN_CODE.items()}
_PERMISSIONS = {code: permission for permission, code in PERMISSION_CODE.items()}
_OPERATIONS = {code: operation for operation, code in OPERATION_CODE.items()}


def acls_request(kind: AclResourceKind, name: str) -> Any:
    """DescribeAcls of every binding that concerns a resource."""
    from kafka.protocol.admin import DescribeAclsRequest

    return DescribeAclsRequest(
        resource_type_filter=KIND_CODE[kind],
        resource_name_filter=name,
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def acls_of(response: Any) -> tuple[AclBinding, ...] | None:
    """The bindings, sorted; None where the cluster has no authorizer. Missing rights raise."""
    if response.error_code == SECURITY_DISABLED:
        return None
    if response.error_code == CLUSTER_DENIED:
        raise refused("describe ACLs", "DESCRIBE on the cluster")
    if response.error_code:
        raise OperationFailedError(f"describe ACLs: {error_of(response.error_code, response.error_message)}")
    found = [
        AclBinding(
            kind=_KINDS[resource.resource_type],
            name=resource.resource_name,
            pattern=_PATTERNS[resource.pattern_type],
            principal=acl.principal,
            host=acl.host,
            operation=_OPERATIONS.get(acl.operation, AclOperation.UNKNOWN),
            permission=_PERMISSIONS[acl.permission_type],
        )
        for resource in response.resources
        for acl in resource.acls
    ]
    return tuple(sorted(found))


def creation_request(bindings: Collection[AclBinding]) -> Any:
    """CreateAcls."""
    from kafka.protocol.admin import CreateAclsRequest as Request

    return Request(
        creations=[
            Request.AclCreation(
                resource_type=KIND_CODE[each.kind],
                resource_name=each.name,
                resource_pattern_type=PATTERN_CODE[each.pattern],
                principal=each.principal,
                host=each.host,
                operation=OPERATION_CODE[each.operation],
                permission_type=PERMISSION_CODE[each.permission],
            )
            for each in bindings
        ]
    )


def removal_request(bindings: Collection[AclBinding]) -> Any:
    """DeleteAcls, with a filter that only the binding itself matches for each."""
    from kafka.protocol.admin import DeleteAclsRequest as Request

    return Request(
        filters=[
            Request.DeleteAclsFilter(
                resource_type_filter=KIND_CODE[each.kind],
                resource_name_filter=each.name,
                pattern_type_filter=PATTERN_CODE[each.pattern],
                principal_filter=each.principal,
                host_filter=each.host,
                operation=OPERATION_CODE[each.operation],
                permission_type=PERMISSION_CODE[each.permission],
            )
            for each in bindings
        ]
    )


def acl_results(results: Collection[Any], bindings: Collection[AclBinding]) -> dict[AclBinding, ItemError | None]:
    """Per binding; answers come in the order requested. A binding that was not there counts as deleted."""
    errors = [_error(result) for result in results]
    errors += [UNANSWERED] * (len(bindings) - len(errors))
    return dict(zip(bindings, errors, strict=True))


def _error(result: Any) -> ItemError | None:
    for each in (result, *getattr(result, "matching_acls", ())):
        error = error_of(each.error_code, each.error_message)
        if error is not None:
            return error
    return None
