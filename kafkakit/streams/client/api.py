"""What other tools use of `streams client`: what clients write about themselves, and what a worker may read."""

from kafkakit.streams.client.decide.client_documents import (
    GRANT_DOCUMENT,
    GRANTS_FOLDER,
    ROUND_BITS,
    WORKER_DOCUMENT,
    WORKERS_FOLDER,
    ClientKind,
    ClientRegistration,
    GrantDocument,
    GrantedPartition,
    GrantedTopic,
    PartitionKey,
    Subscription,
    WorkerDocument,
    epoch_of,
    grant_path,
    worker_path,
)
