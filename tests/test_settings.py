"""Settings of a workspace: described, bounded, and refused with the field, its value and what is expected."""

import pytest
from pydantic import BaseModel

from capeval_pipeline.errors import UsageError
from capeval_pipeline.settings import ReadingLimits, Settings, load_settings
from capeval_pipeline.stage_settings import STAGE_SETTINGS

MODELS = [Settings, ReadingLimits, *STAGE_SETTINGS.values()]
CHECKED_BY_HAND = {"data", "lake_uri", "nightly_cron", "weekly_cron", "time_zone", "limits"}
"""Folders exist or are made; the others have a validator, tried below."""


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_described(model: type[BaseModel]):
    assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_every_number_has_bounds_and_every_text_a_pattern_or_a_list_of_choices():
    unbounded = [
        name
        for name, field in Settings.model_fields.items()
        if name not in CHECKED_BY_HAND and not field.metadata and "Literal" not in str(field.annotation)
    ]
    assert unbounded == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n_workers", "0", "greater than or equal to 1"),
        ("executor", "dask", "pattern"),
        ("time_zone", "Mars/Olympus", "expected a time zone such as"),
        ("nightly_cron", "at night", "expected five fields"),
        ("weekly_cron", "0 5 * * 0 *", "expected five fields"),
        ("lake_uri", "s4://bucket/lake", "s3://bucket/lake"),
        ("lake_uri", "s3://", "s3://bucket/lake"),
        ("freshness_days", "-1", "greater than or equal to 0"),
        ("step_executor", "celery", "'in_process' or 'k8s_job'"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_field_and_what_is_expected(
    tmp_path, monkeypatch, name, value, expected
):
    monkeypatch.setenv(f"CAPEVAL_{name.upper()}", value)
    with pytest.raises(UsageError) as refused:
        load_settings(tmp_path)
    assert f"setting {name} is {value!r}" in str(refused.value)
    assert expected in str(refused.value)
    assert f"CAPEVAL_{name.upper()}" in str(refused.value)


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(tmp_path, monkeypatch):
    (tmp_path / "capeval.toml").write_text('n_workers = 3\nlake_uri = "s3://bucket/lake"\n', encoding="utf-8")
    monkeypatch.setenv("CAPEVAL_N_WORKERS", "5")
    settings = load_settings(tmp_path)
    assert (settings.n_workers, settings.lake_root, settings.time_zone) == (5, "s3://bucket/lake", "UTC")
