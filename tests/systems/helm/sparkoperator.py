"""The schema of the Spark operator's ScheduledSparkApplication, without Kubernetes' own kinds.

No registry here has the CRD. The fields and their types are those of the operator's published
models, PyPI's `kubeflow-spark-api` 2.4.0 (sparkoperator.k8s.io/v1beta2); `template` is a pod, which
`kubernetes-validate` knows.
"""

from typing import Any

import jsonschema

from tests.systems.helm.support import Manifest

_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_NAMED = {"type": "object", "additionalProperties": _TEXT}
_OBJECT, _LIST = {"type": "object"}, {"type": "array", "items": {"type": "object"}}


def _strict(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": fields,
    }


def _all(kind: dict[str, Any], names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


_POD = {
    **_all(_TEXT, "coreLimit coreRequest image javaOptions memory memoryLimit memoryOverhead"),
    **_all(_TEXT, "priorityClassName schedulerName serviceAccount"),
    **_all(_NUMBER, "cores terminationGracePeriodSeconds"),
    **_all(_FLAG, "hostNetwork shareProcessNamespace"),
    **_all(_NAMED, "annotations envVars labels nodeSelector"),
    **_all(_OBJECT, "affinity dnsConfig envSecretKeyRefs gpu lifecycle podSecurityContext"),
    **_all(_OBJECT, "securityContext template"),
    **_all(_LIST, "configMaps env envFrom hostAliases initContainers ports secrets sidecars"),
    **_all(_LIST, "tolerations volumeMounts"),
}
_DRIVER = _strict(
    **_POD,
    **_all(_TEXT, "kubernetesMaster podName"),
    **_all(_NAMED, "serviceAnnotations serviceLabels"),
)
_EXECUTOR = _strict(**_POD, deleteOnTermination=_FLAG, instances=_NUMBER)
_RESTART = _strict(
    type={"enum": ["Never", "Always", "OnFailure"]},
    **_all(_NUMBER, "onFailureRetries onFailureRetryInterval"),
    **_all(_NUMBER, "onSubmissionFailureRetries onSubmissionFailureRetryInterval"),
)
_APPLICATION = _strict(
    ("driver", "executor", "mainApplicationFile", "sparkVersion", "type"),
    type={"enum": ["Java", "Python", "Scala", "R"]},
    mode={"enum": ["cluster", "client", "in-cluster-client"]},
    **_all(_TEXT, "batchScheduler hadoopConfigMap image imagePullPolicy mainApplicationFile"),
    **_all(_TEXT, "mainClass memoryOverheadFactor proxyUser pythonVersion sparkConfigMap"),
    sparkVersion=_TEXT,
    **_all(_NUMBER, "failureRetries retryInterval timeToLiveSeconds"),
    suspend=_FLAG,
    **_all(_TEXTS, "arguments imagePullSecrets"),
    **_all(_NAMED, "hadoopConf nodeSelector sparkConf"),
    **_all(_OBJECT, "batchSchedulerOptions deps dynamicAllocation monitoring sparkUIOptions"),
    **_all(_LIST, "driverIngressOptions volumes"),
    driver=_DRIVER,
    executor=_EXECUTOR,
    restartPolicy=_RESTART,
)
SCHEMA = _strict(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
    kind={"const": "ScheduledSparkApplication"},
    metadata=_OBJECT,
    spec=_strict(
        ("schedule", "template"),
        concurrencyPolicy={"enum": ["Allow", "Forbid", "Replace"]},
        **_all(_TEXT, "schedule timeZone"),
        **_all(_NUMBER, "failedRunHistoryLimit successfulRunHistoryLimit"),
        suspend=_FLAG,
        template=_APPLICATION,
    ),
)


def check(manifest: Manifest) -> None:
    """Checks an object against the operator's schema."""
    jsonschema.validate(manifest, SCHEMA)


def pods(manifest: Manifest) -> list[Manifest]:
    """Returns the pods of an application, the driver's first, as Kubernetes checks them."""
    application = manifest["spec"]["template"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            **application[role]["template"],
            "metadata": {"name": role, **application[role]["template"]["metadata"]},
        }
        for role in ("driver", "executor")
    ]
