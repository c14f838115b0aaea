"""Where files lie: which content leaves when a path says something new, and which files are one and the same."""

from pathlib import Path

import pytest

from capeval_pipeline.errors import UsageError
from capeval_pipeline.ingestion.batch import ledger_of
from capeval_pipeline.ingestion.discovery import Place
from capeval_pipeline.ingestion.reading import Request
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

HEADER = "item_id,model,score\n"
FIRST, SECOND, THIRD = (f"{HEADER}{row}\n" for row in ("q1,elm,1", "q2,elm,0", "q3,elm,1"))


def scores(workspace) -> dict[str, float]:
    return {row["item_id"]: row["score"] for row in workspace.rows("raw.generations")}


def statuses(batch) -> list[tuple[str, str]]:
    return [(report.path.rsplit("/", 1)[-1], report.status) for report in batch.reports]


def test_old_content_leaves_also_where_the_new_one_is_that_of_another_file(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "arc"
    write(folder / "a.csv", FIRST)
    write(folder / "b.csv", SECOND)
    workspace.ingest([folder])
    write(folder / "b.csv", FIRST)
    assert statuses(workspace.ingest([folder])) == [("a.csv", "unchanged"), ("b.csv", "unchanged")]
    assert scores(workspace) == {"q1": 1.0}


@pytest.mark.parametrize(("copy", "original"), [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_a_copy_keeps_what_its_original_holds_no_longer(tmp_path, copy, original):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "arc"
    write(folder / original, FIRST)
    workspace.ingest([folder])
    write(folder / copy, FIRST)
    write(folder / original, SECOND)
    assert statuses(workspace.ingest([folder])) == [("a.csv", "read"), ("b.csv", "read")]
    assert scores(workspace) == {"q1": 1.0, "q2": 0.0}
    assert {status for _, status in statuses(workspace.ingest([folder]))} == {"unchanged"}


def test_files_that_exchange_their_contents_keep_them_all(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "arc"
    contents = [FIRST, SECOND, THIRD]
    for turn in range(3):
        for name, content in zip("abc", contents[turn:] + contents[:turn], strict=True):
            write(folder / f"{name}.csv", content)
        workspace.ingest([folder])
        assert scores(workspace) == {"q1": 1.0, "q2": 0.0, "q3": 1.0}
        current = [row for row in workspace.rows("raw.files") if row["replaced_by_file_id"] is None]
        assert sorted(row["path"] for row in current) == [f"inbox/arc/{name}.csv" for name in "abc"]
        assert {status for _, status in statuses(workspace.ingest([folder]))} == {"unchanged"}


def test_one_relative_path_in_two_folders_is_two_files(tmp_path, monkeypatch):
    workspace = MemoryWorkspace(tmp_path / "data")
    request = Request(benchmark="arc")
    path = Path("results.csv")
    write(tmp_path / "run1" / "results.csv", FIRST)
    write(tmp_path / "run2" / "results.csv", SECOND)
    for folder in ("run1", "run2"):
        monkeypatch.chdir(tmp_path / folder)
        assert [report.path for report in workspace.ingest([path], request).reports] == ["results.csv"]
    assert scores(workspace) == {"q1": 1.0, "q2": 0.0}
    workspace.forget([path])
    assert scores(workspace) == {"q1": 1.0}


def test_one_file_is_the_same_from_wherever_it_is_named(tmp_path, monkeypatch):
    workspace = MemoryWorkspace(tmp_path / "data")
    request = Request(benchmark="arc")
    path = write(tmp_path / "run1" / "results.csv", FIRST)
    monkeypatch.chdir(path.parent)
    workspace.ingest([path], request)
    write(path, SECOND)
    workspace.ingest([path.relative_to(path.parent)], request)
    assert scores(workspace) == {"q2": 0.0}
    write(path, THIRD)
    (tmp_path / "run2").mkdir()
    monkeypatch.chdir(tmp_path / "run2")
    workspace.ingest([Path("../run1/results.csv")], request)
    assert scores(workspace) == {"q3": 1.0}


def test_a_folder_beside_the_present_one_is_its_own_benchmark(tmp_path, monkeypatch):
    place = Place(tmp_path, tmp_path / "inbox")
    write(tmp_path / "inbox" / "arc" / "a.csv", FIRST)
    write(tmp_path / "inbox" / "mmlu" / "a.csv", FIRST)
    monkeypatch.chdir(tmp_path / "inbox" / "arc")
    named = Path("../mmlu/a.csv")
    assert (place.inbox_benchmark(named), place.shown(named)) == ("mmlu", "inbox/mmlu/a.csv")


def test_forgetting_the_data_folder_leaves_what_lies_outside(tmp_path):
    workspace = MemoryWorkspace(tmp_path / "data")
    write(tmp_path / "data" / "inbox" / "arc" / "a.csv", FIRST)
    outside = write(tmp_path / "else" / "b.csv", SECOND)
    workspace.ingest([tmp_path / "data" / "inbox"])
    workspace.ingest([outside], Request(benchmark="arc"))
    workspace.forget([tmp_path / "data"])
    assert scores(workspace) == {"q2": 0.0}
    with pytest.raises(UsageError):
        workspace.forget([tmp_path / "data" / "inbox"])


def test_a_ledger_of_an_older_release_knows_files_by_their_paths(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    write(tmp_path / "inbox" / "arc" / "a.csv", FIRST)
    workspace.ingest([tmp_path / "inbox"])
    table = workspace.readings["arc"]["files"].table()
    assert ledger_of(table.drop_columns(["lies_at"])) == ledger_of(table)
