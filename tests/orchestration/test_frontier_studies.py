"""Studies as assets: written once, found again, fitting their contracts."""

import dagster as dg
import pytest

from capeval_pipeline.methods.debiasing import studies as frontier_studies
from capeval_pipeline.orchestration.assets.studies import FRONTIER_STUDIES, build_studies
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPEVAL_DATA", str(tmp_path))
    return Workspace(load_settings())


def test_a_study_is_written_once_and_then_found(workspace, monkeypatch, instance):
    calls = []
    whole = frontier_studies.study_topic_entropy

    def small(*, seed):
        calls.append(seed)
        return whole(seed=seed, n_items_a_topic=30, n_mixtures=5)

    monkeypatch.setattr(frontier_studies, "study_topic_entropy", small)
    assets = build_studies([study for study in FRONTIER_STUDIES if study.table == "studies.topic_entropy"])
    for _ in range(2):
        result = dg.materialize(assets, instance=instance, resources={"workspace": workspace})
        assert result.success
    assert len(calls) == 1
    assert workspace.lake.read("studies.topic_entropy").num_rows == 2 * (5 + 2)


def test_each_study_has_its_table():
    assert [study.table for study in FRONTIER_STUDIES] == [
        "studies.oracle_bias_decay",
        "studies.debiaser_comparison",
        "studies.interval_coverage",
        "studies.topic_entropy",
    ]
