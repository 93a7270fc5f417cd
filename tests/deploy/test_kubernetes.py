"""The manifests in deploy/kubernetes, by the schemas of Kubernetes, of KEDA and of Temporal's
Worker Controller.

`custom_resources.json` has what the resource definitions of KEDA 2.20.2 (Apache-2.0) and of
temporal-worker-controller 1.8.1 (MIT) say of these kinds, without descriptions; of triggers the
names of their metadata.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from perdure.json_types import JsonObject, JsonView
from perdure.worker.health import LIVE, READY

from ..support.documents import ROOT
from ..support.needs import module

VERSION = "1.36"
CUSTOM: JsonObject = json.loads((Path(__file__).parent / "custom_resources.json").read_text())
RESOURCES: dict[str, JsonObject] = {
    f"{file.stem}/{resource['kind']}": resource
    for file in sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
    for resource in yaml.safe_load_all(file.read_text())
}
each = pytest.mark.parametrize("name", RESOURCES)


@each
def test_it_meets_its_schema(name: str) -> None:
    resource = RESOURCES[name]
    if (schema := CUSTOM.get(resource["kind"])) is None:
        module("kubernetes_validate").validate(resource, VERSION, strict=True)
        return
    problems = [
        error.message
        for error in Draft202012Validator(_closed(schema)).iter_errors(_without_meta(resource))
    ]
    assert problems == []


def _closed(schema: Any) -> Any:
    """The schema as the API server takes it: what it does not name is dropped, which is a mistake
    here.
    """
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return (
        {**closed, "additionalProperties": False}
        if isinstance(schema.get("properties"), dict)
        else closed
    )


def _without_meta(resource: JsonView) -> JsonObject:
    return {key: value for key, value in resource.items() if key != "metadata"}


@each
def test_it_is_in_the_namespace_and_of_the_version_that_its_schema_is_for(name: str) -> None:
    resource = RESOURCES[name]
    assert resource["metadata"]["namespace"] == "perdure"
    if resource["kind"] in CUSTOM:
        assert resource["apiVersion"] in ("temporal.io/v1alpha1", "keda.sh/v1alpha1")


def test_the_pods_of_versions_are_those_of_the_deployment() -> None:
    by_version, plain = (
        RESOURCES["worker-deployment/WorkerDeployment"],
        RESOURCES["deployment/Deployment"],
    )
    assert by_version["spec"]["template"] == plain["spec"]["template"], "and so have a schema"
    assert by_version["spec"]["rollout"]["steps"], "Progressive needs steps"


def test_what_a_resource_scales_is_what_there_is() -> None:
    spec = RESOURCES["worker-deployment/WorkerResourceTemplate"]["spec"]
    assert (
        spec["workerDeploymentRef"]["name"]
        == RESOURCES["worker-deployment/WorkerDeployment"]["metadata"]["name"]
    )
    inner = {**spec["template"], "metadata": {"name": "inner"}}
    inner["spec"] = {
        **inner["spec"],
        "scaleTargetRef": {"kind": "Deployment", "name": "filled in by the controller"},
    }
    module("kubernetes_validate").validate(inner, VERSION, strict=True)
    scaled = RESOURCES["autoscaling/ScaledObject"]["spec"]
    assert (
        scaled["scaleTargetRef"]["name"] == RESOURCES["deployment/Deployment"]["metadata"]["name"]
    )
    for trigger in scaled["triggers"]:
        assert trigger["metadata"].keys() <= set(CUSTOM["triggers"][trigger["type"]])
        assert all(isinstance(value, str) for value in trigger["metadata"].values())


def test_workers_get_a_configuration_that_is_there_and_take_their_time_to_end() -> None:
    template = RESOURCES["deployment/Deployment"]["spec"]["template"]["spec"]
    [worker] = template["containers"]
    named = {
        source["configMapRef"]["name"] for source in worker["envFrom"] if "configMapRef" in source
    }
    assert named == {RESOURCES["common/ConfigMap"]["metadata"]["name"]}
    grace = float(worker["args"][worker["args"].index("--grace") + 1])
    assert template["terminationGracePeriodSeconds"] >= grace + 10
    assert f"uid {template['securityContext']['runAsUser']}" in (ROOT / "Dockerfile").read_text()
    for name, option in ("metrics", "--metrics-address"), ("health", "--health-address"):
        port = int(worker["args"][worker["args"].index(option) + 1].rpartition(":")[2])
        assert {"name": name, "containerPort": port} in worker["ports"]
    text = (ROOT / "deploy/kubernetes/common.yaml").read_text()
    secrets = set(re.findall(r"secret generic ([\w-]+)", text))
    assert secrets == {
        worker["envFrom"][1]["secretRef"]["name"],
        template["volumes"][1]["secret"]["secretName"],
    }


def test_the_gateway_is_asked_how_it_is_where_it_listens() -> None:
    deployment = RESOURCES["gateway/Deployment"]["spec"]
    [gateway] = deployment["template"]["spec"]["containers"]
    given, known = (
        gateway["args"],
        (ROOT / "docs/reference/cli.md").read_text().partition("## perdure serve")[2],
    )
    assert all(f"  {word} " in known for word in given if word.startswith("--"))
    ports = {each["name"]: each["containerPort"] for each in gateway["ports"]}
    assert ports["http"] == int(given[given.index("--port") + 1])
    assert ports["metrics"] == int(given[given.index("--metrics-address") + 1].rpartition(":")[2])
    for name, path in (("startup", LIVE), ("liveness", LIVE), ("readiness", READY)):
        assert gateway[f"{name}Probe"]["httpGet"] == {"path": path, "port": "http"}
    service, budget = (
        RESOURCES["gateway/Service"]["spec"],
        RESOURCES["gateway/PodDisruptionBudget"]["spec"],
    )
    labels = deployment["template"]["metadata"]["labels"]
    assert (
        service["selector"]
        == budget["selector"]["matchLabels"]
        == deployment["selector"]["matchLabels"]
        == labels
    )
    mounts = {each["name"]: each["mountPath"] for each in gateway["volumeMounts"]}
    assert given[given.index("--tokens") + 1] == f"{mounts['tokens']}/tokens.yaml"
    assert (ROOT / given[0]).exists()
