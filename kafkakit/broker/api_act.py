"""What other tools use of the operations on brokers: the cluster with the brokers that they empty marked."""

from kafkakit.broker.act.operation_files import open_records, without_leaving
