"""Two files that declare different values of one key for a benchmark: the second is refused, naming both."""

import pytest

from tests.ingestion.workspaces import MemoryWorkspace

HEADER = "item_id,model,score\n"


def lay(folder, model, declared, score=1):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.yml").write_text("name: two\n" + declared)
    (folder / f"{model}.csv").write_text(HEADER + "".join(f"q{n},{model},{score}\n" for n in range(3)))
    return folder


def fates(workspace):
    return {row["path"].split("/")[-1]: row["status"] for row in workspace.rows("raw.files")}


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("score_range: [0, 1]\n", "score_range: [0, 2]\n", "score_range"),
        ("higher_is_better: true\n", "higher_is_better: false\n", "higher_is_better"),
        ("error_policy: wrong\n", "error_policy: ignore\n", "error_policy"),
        ("identification: {n_seeds: 2}\n", "identification: {n_seeds: 5}\n", "identification.n_seeds"),
    ],
)
@pytest.mark.parametrize("is_one_batch", [True, False])
def test_the_second_is_refused_naming_both_and_the_first_stays(tmp_path, one, other, key, is_one_batch):
    folders = [lay(tmp_path / "a", "elm", one), lay(tmp_path / "b", "oak", other)]
    workspace = MemoryWorkspace(tmp_path / "data")
    batch = None
    for paths in [folders] if is_one_batch else [[folder] for folder in folders]:
        batch = workspace.ingest(paths)
    assert fates(workspace) == {"elm.csv": "read", "oak.csv": "refused"}
    refused = batch.reports[-1]
    assert (refused.status, refused.n_read, refused.n_rejected, refused.n_kept) == ("refused", 3, 3, 0)
    assert batch.has_refusals
    (remark,) = refused.rejections
    assert remark.reason == "config_invalid"
    assert key in remark.message and "a/elm.csv" in remark.message and "b/oak.csv" in remark.message
    assert {row["model_id"] for row in workspace.rows("raw.generations")} == {"elm"}


def test_what_agrees_or_speaks_of_other_keys_is_read(tmp_path):
    workspace = MemoryWorkspace(tmp_path / "data")
    workspace.ingest([
        lay(tmp_path / "a", "elm", "score_range: [0, 1]\nidentification: {n_seeds: 2}\n"),
        lay(tmp_path / "b", "oak", "score_range: [0.0, 1.0]\nidentification: {batch: 4}\n"),
        lay(tmp_path / "c", "fir", ""),
    ])  # fmt: skip
    assert set(fates(workspace).values()) == {"read"}


def test_a_refused_declaration_is_told_each_time_and_counts_once_the_first_is_gone(tmp_path):
    first = lay(tmp_path / "a", "elm", "score_range: [0, 1]\n")
    second = lay(tmp_path / "b", "oak", "score_range: [0, 2]\n")
    workspace = MemoryWorkspace(tmp_path / "data")
    workspace.ingest([first])
    workspace.ingest([second])
    before = workspace.rows("raw.rejections")
    assert workspace.ingest([second]).has_refusals
    assert workspace.rows("raw.rejections") == before
    workspace.forget([first])
    assert fates(workspace) == {"oak.csv": "read"}
    assert workspace.rows("raw.benchmarks")[0]["score_high"] == 2


def test_one_declaration_that_is_corrected_for_all_its_files_is_no_contradiction(tmp_path):
    folder = lay(tmp_path / "a", "elm", "score_range: [0, 1]\n")
    lay(folder, "oak", "score_range: [0, 1]\n")
    workspace = MemoryWorkspace(tmp_path / "data")
    workspace.ingest([folder])
    lay(folder, "elm", "score_range: [0, 2]\n")
    workspace.ingest([folder])
    assert set(fates(workspace).values()) == {"read"}
    assert workspace.rows("raw.benchmarks")[0]["score_high"] == 2


def test_the_second_in_can_be_put_right_by_its_declaration(tmp_path):
    workspace = MemoryWorkspace(tmp_path / "data")
    workspace.ingest([lay(tmp_path / "a", "elm", "score_range: [0, 1]\n")])
    workspace.ingest([lay(tmp_path / "b", "oak", "score_range: [0, 2]\n")])
    batch = workspace.ingest([lay(tmp_path / "b", "oak", "score_range: [0, 1]\n")])
    assert not batch.has_refusals
    assert set(fates(workspace).values()) == {"read"}
