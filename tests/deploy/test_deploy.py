"""The deployment that is shipped: what its files name exists, and only documented keys are used."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from capeval_pipeline.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy"

COMPOSE_KEYS = {
    "": {"name", "services", "volumes"},
    "service": {
        "build", "command", "depends_on", "environment", "healthcheck", "image", "ports", "restart", "volumes",
    },
    "build": {"context", "dockerfile"},
    "healthcheck": {"test", "interval", "timeout", "retries", "start_period"},
    "depends_on": {"condition"},
}  # fmt: skip
"""Keys of the Compose Specification (chapters 4, 5 and 7, and Build) that are used here."""

CHART_KEYS = {
    "dagsterWebserver": {"replicaCount", "image.repository", "image.tag", "image.pullPolicy"},
    "dagster-user-deployments": {
        "enabled", "enableSubchart", "deployments.name", "deployments.image.repository", "deployments.image.tag",
        "deployments.image.pullPolicy", "deployments.dagsterApiGrpcArgs", "deployments.port", "deployments.env",
        "deployments.envSecrets.name", "deployments.includeConfigInLaunchedRuns.enabled", "deployments.resources",
        "deployments.volumes", "deployments.volumeMounts",
    },
    "postgresql": {
        "enabled", "postgresqlScheme", "postgresqlUsername", "postgresqlPassword", "postgresqlDatabase", "service.port",
    },
    "runLauncher": {
        "type", "config.k8sRunLauncher.imagePullPolicy", "config.k8sRunLauncher.loadInclusterConfig",
        "config.k8sRunLauncher.failPodOnRunFailure",
    },
    "dagsterDaemon": {
        "enabled", "image.repository", "image.tag", "image.pullPolicy", "runCoordinator.enabled", "runCoordinator.type",
        "runCoordinator.config.queuedRunCoordinator.maxConcurrentRuns",
        "runCoordinator.config.queuedRunCoordinator.tagConcurrencyLimits.key",
        "runCoordinator.config.queuedRunCoordinator.tagConcurrencyLimits.limit",
        "runCoordinator.config.queuedRunCoordinator.tagConcurrencyLimits.value.applyLimitPerUniqueValue",
        "runMonitoring.enabled", "sensors.useThreads", "sensors.numWorkers",
    },
    "computeLogManager": {"type"},
    "telemetry": {"enabled"},
}  # fmt: skip
"""Key paths of the values schema of Dagster's chart that are used here; lists count as their elements."""

FREE_FORM = {"deployments.env", "deployments.resources", "deployments.volumes", "deployments.volumeMounts"}
"""Handed on to Kubernetes as they are."""

OBJECT_STORE_VARIABLES = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"}
"""Names that delta-rs reads."""


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def test_compose_uses_documented_keys_alone():
    compose = read("compose.yaml")
    assert {key for key in compose if not key.startswith("x-")} <= COMPOSE_KEYS[""]
    for name, service in compose["services"].items():
        assert set(service) <= COMPOSE_KEYS["service"], name
        assert set(service.get("build", {})) <= COMPOSE_KEYS["build"], name
        assert set(service.get("healthcheck", {})) <= COMPOSE_KEYS["healthcheck"], name
        for other, how in service.get("depends_on", {}).items():
            assert other in compose["services"]
            assert set(how) <= COMPOSE_KEYS["depends_on"]
            assert "healthcheck" in compose["services"][other], f"{name} waits for {other}, which never says it is well"


def test_compose_mounts_what_is_there_and_builds_the_shipped_image():
    compose = read("compose.yaml")
    for service in compose["services"].values():
        for source, _, _ in (mount.partition(":") for mount in service["volumes"]):
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in compose["volumes"]
    code = compose["services"]["code"]
    assert (DEPLOY / code["build"]["context"] / code["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_page_is_not_open_to_other_machines():
    assert read("compose.yaml")["services"]["webserver"]["ports"] == ["127.0.0.1:3000:3000"]


def test_services_find_the_code_location_where_it_listens():
    (location,) = read("workspace.yaml")["load_from"]
    server = location["grpc_server"]
    (everywhere,) = yaml.safe_load((PROJECT / "workspace.yaml").read_text())["load_from"]
    assert server["location_name"] == everywhere["python_module"]["location_name"]
    command = read("compose.yaml")["services"][server["host"]]["command"]
    assert command[command.index("-p") + 1] == str(server["port"])
    assert command[command.index("-m") + 1] == everywhere["python_module"]["module_name"]


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Key paths down to what is no mapping; elements of a list count as the list."""
    if at in FREE_FORM or not isinstance(value, Mapping | list) or not value:
        yield at
    elif isinstance(value, list):
        for entry in value:
            yield from paths(entry, at)
    else:
        for key, below in value.items():
            yield from paths(below, f"{at}.{key}" if at else key)


def test_values_use_documented_keys_of_the_chart_alone():
    values = read("values.yaml")
    assert set(values) == set(CHART_KEYS)
    for part, keys in CHART_KEYS.items():
        assert set(paths(values[part])) == keys, part


def test_values_name_a_module_that_is_there_and_mount_volumes_they_declare():
    (deployment,) = read("values.yaml")["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["-m", "capeval_pipeline.definitions"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", deployment["name"]), "Kubernetes takes no other names"
    declared = {volume["name"] for volume in deployment["volumes"]}
    assert {mount["name"] for mount in deployment["volumeMounts"]} == declared
    assert deployment["env"]["CAPEVAL_DATA"] in {mount["mountPath"] for mount in deployment["volumeMounts"]}


def named_variables() -> dict[str, str]:
    """Every environment variable that the files set or read, and where."""
    compose, values = read("compose.yaml"), read("values.yaml")
    found = {name: "compose.yaml" for service in compose["services"].values() for name in service["environment"]}
    found |= dict.fromkeys(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()), "compose.yaml")
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    found |= dict.fromkeys(deployment["env"], "values.yaml")
    lines = (DEPLOY / "example.env").read_text().splitlines()
    found |= {line.lstrip("# ").split("=")[0]: "example.env" for line in lines if re.match(r"#? ?[A-Z_]+=", line)}
    return found | dict.fromkeys(re.findall(r"env: ([A-Z_]+)", (DEPLOY / "dagster.yaml").read_text()), "dagster.yaml")


def test_every_variable_is_a_setting_or_read_by_somebody():
    settings = {f"CAPEVAL_{name.upper()}" for name in Settings.model_fields}
    instance = set(re.findall(r"env: ([A-Z_]+)", (DEPLOY / "dagster.yaml").read_text()))
    image = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "DAGSTER_HOME"}
    unknown = {
        name: where
        for name, where in named_variables().items()
        if name not in settings | instance | OBJECT_STORE_VARIABLES | image
    }
    assert unknown == {}


def test_values_of_settings_are_ones_they_may_have(monkeypatch, tmp_path):
    (deployment,) = read("values.yaml")["dagster-user-deployments"]["deployments"]
    for name, value in deployment["env"].items():
        monkeypatch.setenv(name, value)
    settings = Settings(data=tmp_path)
    assert (settings.step_executor, settings.lake_root) == ("k8s_job", "s3://evaluations/lake")


def test_the_instance_loads_and_says_that_runs_of_a_benchmark_take_turns(monkeypatch):
    from dagster._core.instance.config import dagster_instance_config

    pytest.importorskip("dagster_postgres", reason="the extra 'postgres' is not installed")
    for name in named_variables():
        if name.startswith("DAGSTER_POSTGRES"):
            monkeypatch.setenv(name, "5432")
    config, _ = dagster_instance_config(str(DEPLOY))
    (limit,) = config["concurrency"]["runs"]["tag_concurrency_limits"]
    (chart,) = read("values.yaml")["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"][
        "tagConcurrencyLimits"
    ]
    assert limit == chart == {"key": "dagster/partition", "limit": 1, "value": {"applyLimitPerUniqueValue": True}}


def test_an_instance_with_a_misspelt_key_would_not_load(tmp_path):
    from dagster._core.errors import DagsterInvalidConfigError
    from dagster._core.instance.config import dagster_instance_config

    (tmp_path / "dagster.yaml").write_text(
        (DEPLOY / "dagster.yaml").read_text().replace("tag_concurrency", "tag_limit")
    )
    with pytest.raises(DagsterInvalidConfigError):
        dagster_instance_config(str(tmp_path))


def test_the_step_executor_takes_the_config_it_is_given_and_no_other():
    from dagster._config import validate_config

    executor = pytest.importorskip("dagster_k8s", reason="the extra 'k8s' is not installed").k8s_job_executor
    schema = executor.config_schema.config_type
    assert validate_config(schema, {"max_concurrent": 4}).success
    assert not validate_config(schema, {"max_workers": 4}).success
    assert isinstance(executor, dg.ExecutorDefinition)


def test_the_image_copies_what_is_there_and_installs_extras_that_exist():
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    for line in (line.split() for line in lines if line.startswith("COPY")):
        assert all((PROJECT / source).exists() for source in line[1:-1]), line
    extras = re.findall(r"--extra (\w+)", " ".join(lines))
    declared = (PROJECT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    assert extras
    assert all(re.search(rf"^{extra} = ", declared, re.MULTILINE) for extra in extras)
    instructions = {line.split()[0] for line in lines if line and not line.startswith(("#", " "))}
    assert instructions == {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "EXPOSE", "CMD"}
