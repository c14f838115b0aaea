"""Studies as assets: written once, found again, fitting their contracts."""

import dagster as dg
import pandas as pd
import pytest

from capeval_pipeline.orchestration.assets.studies import FRONTIER_STUDIES, Study, build_studies
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPEVAL_DATA", str(tmp_path))
    return Workspace(load_settings())


def small_study(calls):
    def make():
        calls.append(1)
        return pd.DataFrame({"world": ["w"], "mixture": ["1.0"], "entropy": [0.0], "oracle_gap": [0.1]})

    return Study("studies.topic_entropy", make)


def test_a_study_is_written_once_and_then_found(workspace):
    calls = []
    assets = build_studies([small_study(calls)])
    instance = dg.DagsterInstance.ephemeral()
    for _ in range(2):
        result = dg.materialize(assets, instance=instance, resources={"workspace": workspace})
        assert result.success
    assert len(calls) == 1
    assert workspace.lake.read("studies.topic_entropy").to_pandas()["oracle_gap"].tolist() == [0.1]


def test_each_study_has_its_table():
    assert [study.table for study in FRONTIER_STUDIES] == [
        "studies.oracle_bias_decay",
        "studies.debiaser_comparison",
        "studies.topic_entropy",
    ]
