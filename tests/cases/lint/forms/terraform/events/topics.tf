# Topics of the event platform.
terraform {
  required_providers {
    kafka = {
      source  = "Mongey/kafka"
      version = "~> 0.7"
    }
  }
}

locals {
  day_ms = 24 * 60 * 60 * 1000

  topics = {
    "orders.created"  = { partitions = 12, days = 7 }
    "orders.shipped"  = { partitions = 12, days = 30 }
    "audit.log"       = { partitions = 3, days = -1, min_isr = 3 } # for ever
  }
}

resource "kafka_topic" "event" {
  for_each = local.topics

  name               = "${var.environment}.${each.key}"
  partitions         = each.value.partitions
  replication_factor = 3

  config = {
    "cleanup.policy"      = "delete"
    "retention.ms"        = each.value.days * local.day_ms
    "min.insync.replicas" = try(each.value.min_isr, 2)
    "compression.type"    = var.codec
  }

  lifecycle {
    prevent_destroy = true
  }
}

resource "kafka_topic" "changelog" {
  name               = "customers"
  partitions         = var.partitions
  replication_factor = 3
  config = {
    "cleanup.policy" = "compact,remove"
    "segment.bytes"  = "104857600"
  }
}

resource "kafka_acl" "orders" {
  resource_name       = "orders"
  resource_type       = "Topic"
  acl_principal       = "User:orders"
  acl_host            = "*"
  acl_operation       = "Write"
  acl_permission_type = "Allow"
}
