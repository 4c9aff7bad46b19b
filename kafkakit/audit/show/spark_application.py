"""A run as a `SparkApplication` of the Kubeflow Spark operator (sparkoperator.k8s.io/v1beta2)."""

import re

import yaml

from kafkakit.audit.decide.launch import SparkChoice
from kafkakit.core.job_spec import JobSpec

SPARK_VERSION = "4.0.0"
_USER = 185  # the user of Spark's own images
_NAME_LIMIT = 63
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spark_application(spec: JobSpec, choice: SparkChoice, location: str, code: str) -> str:
    """The manifest as YAML; program, code and spec are read from the run's folder, credentials by the service account.

    A run is never repeated by the operator: it would hide the reason of its failure.
    """
    pod = {"cores": 1, "memory": "3g", "serviceAccount": "spark", "securityContext": _POD_SECURITY}
    body = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {
            "name": re.sub(r"[^a-z0-9-]+", "-", f"kafkakit-{spec.run_id}".lower())[:_NAME_LIMIT].rstrip("-"),
            "namespace": choice.namespace,
            "labels": {"app.kubernetes.io/name": "kafkakit", "app.kubernetes.io/component": "audit"},
        },
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": SPARK_VERSION,
            "image": choice.image,
            "mainApplicationFile": f"{location}/main.py",
            # Files land in the driver's working folder.
            "arguments": ["--spec", "spec.json"],
            "deps": {"pyFiles": [f"{location}/{code}"], "files": [f"{location}/spec.json"]},
            "sparkConf": {"spark.ui.showConsoleProgress": "false", **choice.settings()},
            "restartPolicy": {"type": "Never"},
            "driver": pod,
            "executor": {**{k: v for k, v in pod.items() if k != "serviceAccount"}, "instances": 2},
        },
    }
    return yaml.safe_dump(body, sort_keys=False)
