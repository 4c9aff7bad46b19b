resource "aws_msk_configuration" "main" {
  count = var.enabled ? 1 : 0

  name           = "${local.prefix}-msk"
  kafka_versions = ["3.9.x"]
  description    = "Settings of the event platform"

  server_properties = <<-PROPERTIES
    auto.create.topics.enable=false
    default.replication.factor=3
    min.insync.replicas=2
    num.partitions=${var.partitions}
    log.retention.hours=168
    unclean.leader.election.enable=true
    replica.lag.time.max.ms=30s
  PROPERTIES

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_msk_cluster" "main" {
  count = var.enabled ? 1 : 0

  cluster_name           = "${local.prefix}-msk"
  kafka_version          = "3.9.x"
  number_of_broker_nodes = length(var.subnet_ids)

  broker_node_group_info {
    instance_type   = var.instance_type
    client_subnets  = var.subnet_ids
    security_groups = [aws_security_group.msk.id]

    storage_info {
      ebs_storage_info {
        volume_size = 1000
      }
    }
  }

  configuration_info {
    arn      = aws_msk_configuration.main[0].arn
    revision = aws_msk_configuration.main[0].latest_revision
  }
}
