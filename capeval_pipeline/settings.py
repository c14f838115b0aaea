"""What a workspace is set to: environment CAPEVAL_* over capeval.toml in the workspace over the defaults here.

Fields of a stage (seed, number of clusters …) are not here but in stage_settings/; capeval.toml may hold them as
[derive], [capabilities], [identification], [frontier].
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from capeval_pipeline.errors import UsageError

OBJECT_STORES = ("s3", "s3a", "gs", "abfs", "abfss", "az")
STAGE_BLOCKS = ("derive", "capabilities", "identification", "frontier")


class ReadingLimits(BaseModel):
    """What a result file may cost before it is refused; messages name the field that was met."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inflated_bytes: int = Field(default=2 * 1024**3, ge=1, description="Inflated size of a file or archive member.")
    archive_bytes: int = Field(default=20 * 1024**3, ge=1, description="Inflated size of all members of an archive.")
    archive_members: int = Field(default=200_000, ge=1, description="Members of an archive.")
    inflation_ratio: int = Field(default=200, ge=1, description="Inflated bytes for each packed one.")
    ratio_free_bytes: int = Field(default=10 * 1024**2, ge=0, description="Inflated size from which the ratio counts.")
    line_bytes: int = Field(default=32 * 1024**2, ge=1, description="Size of one line; longer ones are refused alone.")
    document_bytes: int = Field(default=2 * 1024**3, ge=1, description="Size of one JSON document.")
    json_depth: int = Field(default=100, ge=1, le=400, description="Levels of nesting in JSON.")
    n_bad_rows: int = Field(
        default=1_000, ge=1, description="Broken rows after which a file is given up, if over half."
    )


class Settings(BaseSettings):
    """Settings of one workspace; every field has a description, bounds and a default."""

    model_config = SettingsConfigDict(env_prefix="CAPEVAL_", extra="ignore", frozen=True)

    data: Path = Field(default=Path("data"), description="The workspace folder: lake, warehouse, inbox, reports.")
    lake_uri: str = Field(default="", description="Root of the lake if it is not <data>/lake, e.g. s3://bucket/lake.")
    executor: str = Field(
        default="threads", pattern=r"^(threads|processes|dask://.+)$", description="Where simulations fan out to."
    )
    n_workers: int = Field(
        default=min(os.cpu_count() or 1, 8),
        ge=1,
        le=512,
        description="Threads or processes of the executor, steps at once with k8s_job; a Dask cluster has its own.",
    )
    memory_limit: str = Field(
        default="3GB", pattern=r"^\d+(\.\d+)?\s?(MB|GB|MiB|GiB)$", description="What one DuckDB connection may use."
    )
    error_policy: Literal["ignore", "wrong"] = Field(
        default="ignore", description="What an error counts as where benchmark.yml does not say: left out, or wrong."
    )
    log_retention_days: int = Field(
        default=7, ge=1, le=3650, description="How long versions of the lake's tables can be looked back to."
    )
    n_old_warehouses: int = Field(
        default=2, ge=0, le=50, description="Published database files kept beside the newest."
    )
    nightly_cron: str = Field(default="0 3 * * *", description="When nightly_refresh runs, once it is turned on.")
    weekly_cron: str = Field(default="0 5 * * 0", description="When weekly_studies runs, once it is turned on.")
    time_zone: str = Field(default="UTC", description="Time zone of the schedules, e.g. Europe/Berlin.")
    freshness_days: int = Field(
        default=30, ge=0, le=3650, description="Days without a publish after which the UI marks marts stale; 0: never."
    )
    step_executor: Literal["in_process", "k8s_job"] = Field(
        default="in_process",
        description="What the UI's and the daemon's runs do a step in: the run, or a Kubernetes job.",
    )

    minimum_coverage: float = Field(
        default=0.9, ge=0, le=1, description="Share of model x item cells with a score below which a check warns."
    )

    limits: ReadingLimits = Field(
        default=ReadingLimits(), description="What result files may cost; `[limits]` in capeval.toml."
    )

    @field_validator("lake_uri")
    @classmethod
    def _is_known_store(cls, text: str) -> str:
        scheme, separator, rest = text.partition("://")
        if separator and (scheme not in OBJECT_STORES or not rest.strip("/")):
            raise ValueError(
                f"expected a folder, or a bucket as in s3://bucket/lake; {', '.join(OBJECT_STORES)} are known"
            )
        return text

    @field_validator("nightly_cron", "weekly_cron")
    @classmethod
    def _is_cron(cls, text: str) -> str:
        if len(text.split()) != 5 or not re.fullmatch(r"[\d*/,\-A-Za-z ]+", text):
            raise ValueError("expected five fields of a cron line such as '0 3 * * *'")
        return text

    @field_validator("time_zone")
    @classmethod
    def _is_time_zone(cls, text: str) -> str:
        try:
            ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            if text != "UTC":  # known to everybody, also where no time zones are installed
                raise ValueError("expected a time zone such as 'UTC' or 'Europe/Berlin'") from error
        return text

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What counts first: given by name, the environment, capeval.toml of the workspace; then the defaults."""
        folder = init_settings().get("data") or env_settings().get("data") or cls.model_fields["data"].default
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, Path(folder) / "capeval.toml")

    @property
    def root(self) -> Path:
        """The workspace folder, absolute."""
        return self.data.expanduser().absolute()

    @property
    def lake_root(self) -> str:
        """Folder (absolute) or URI of the lake; a relative folder lies in the workspace."""
        return self.lake_uri if "://" in self.lake_uri else str(self.root / (self.lake_uri or "lake"))

    @property
    def database(self) -> Path:
        """The published database people query: a link to the newest file in `warehouse/`."""
        return self.root / "capeval.duckdb"

    @property
    def warehouse_folder(self) -> Path:
        """Where the files behind the published database lie, the newest and some older ones."""
        return self.root / "warehouse"

    @property
    def inbox(self) -> Path:
        """Where files are dropped to be read, a folder a benchmark."""
        return self.root / "inbox"

    @property
    def reports(self) -> Path:
        """Where the report's pages lie."""
        return self.root / "reports"

    @property
    def dagster_home(self) -> Path:
        """Where Dagster keeps its own: dagster.yaml, runs, what it was told."""
        return self.root / "dagster"

    @property
    def cache(self) -> Path:
        """What can be deleted at any time: compiled kernels, embeddings, spilled rows."""
        return self.root / "cache"

    @property
    def temporary(self) -> Path:
        """Folders of what is being read, gone afterwards."""
        return self.root / "tmp"

    def stage_block(self, stage: str) -> Mapping[str, Any]:
        """The stage's fields as capeval.toml sets them; empty where it does not. Raises UsageError on broken TOML."""
        block = workspace_file(self.root).get(stage, {})
        if not isinstance(block, Mapping):
            raise UsageError(f"{self.root / 'capeval.toml'}: [{stage}] is {block!r}; expected a table of fields")
        return block


def workspace_file(root: Path) -> Mapping[str, Any]:
    """Content of capeval.toml, empty if there is none."""
    path = root / "capeval.toml"
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; expected TOML such as `n_workers = 2`") from error


def load_settings(data: Path | None = None) -> Settings:
    """Settings of the workspace `data`, else of CAPEVAL_DATA, else of ./data.

    Raises UsageError with the field, what it was set to and what is expected.
    """
    chosen = data if data is not None else Path(os.environ.get("CAPEVAL_DATA") or "data")
    root = chosen.expanduser().absolute()
    unknown = sorted(set(workspace_file(root)) - set(Settings.model_fields) - set(STAGE_BLOCKS))
    if unknown:
        raise UsageError(
            f"{root / 'capeval.toml'}: unknown setting {unknown[0]!r}; "
            f"expected one of {', '.join(sorted(Settings.model_fields))} or a block {', '.join(STAGE_BLOCKS)}"
        )
    try:
        return Settings(data=root)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {field} is {first.get('input')!r}: {first['msg']} (CAPEVAL_{field.upper()} or capeval.toml)"
        ) from error
