"""Changes of several tables: nobody builds on half of one, and one that cannot be undone does not keep others half."""

from pathlib import Path

import pyarrow as pa
import pytest

from capeval_pipeline.errors import LakeError
from capeval_pipeline.orchestration import whole_changes
from capeval_pipeline.orchestration.workspace import Workspace
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.unfinished import note_before

KEYS = ("raw.items", "raw.models")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(load_settings(tmp_path / "ws"))


def write(workspace: Workspace, benchmark_id: str, value: str, keys=KEYS) -> None:
    for key in keys:
        workspace.lake.write(key, benchmark_id, pa.table({"benchmark_id": [benchmark_id], "item_id": [value]}))


def values(workspace: Workspace, benchmark_id: str) -> list[str]:
    return [workspace.lake.read(key, benchmark_id).column("item_id")[0].as_py() for key in KEYS]


def interrupted(workspace: Workspace, benchmark_id: str):
    """What a process that was killed between two tables leaves."""
    path = workspace.unfinished_note(benchmark_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    note_before(path, workspace.lake, benchmark_id, KEYS)
    write(workspace, benchmark_id, "new", KEYS[:1])
    return path


def test_versions_are_of_a_moment_without_half_a_change(workspace, instance, monkeypatch):
    write(workspace, "arc", "old")
    looked, latest = [], whole_changes.latest_records

    def meanwhile(*words):
        """Another process changes both tables between the first look at them and the second, once."""
        if not looked:
            with workspace.benchmark_lock("arc"), whole_changes.whole_change(workspace, ["arc"], KEYS):
                write(workspace, "arc", "new")
        looked.append(words)
        return latest(*words)

    monkeypatch.setattr(whole_changes, "latest_records", meanwhile)
    _, versions = whole_changes.read_at_rest(workspace, instance, KEYS)
    assert len(looked) == 2
    assert versions == {key: workspace.lake.delta_version(key) for key in KEYS}


def test_a_change_whose_tables_are_written_and_that_is_still_told_of_counts_as_under_way(
    workspace, instance, monkeypatch
):
    """No table moves between the looks at them, and yet the records read in between may be half of the old ones."""
    write(workspace, "arc", "old")
    looked, versions_of = [], whole_changes.versions_at

    def meanwhile(*words):
        if not looked:
            interrupted(workspace, "arc")
        looked.append(words)
        assert len(looked) < 5, "nothing undoes it"
        return versions_of(*words)

    monkeypatch.setattr(whole_changes, "versions_at", meanwhile)
    _, versions = whole_changes.read_at_rest(workspace, instance, KEYS)
    assert values(workspace, "arc") == ["old", "old"]
    assert versions == {key: workspace.lake.delta_version(key) for key in KEYS}


def test_a_change_cut_short_is_undone_before_versions_are_taken(workspace, instance, monkeypatch):
    looks, versions_of = iter(("before", "after")), whole_changes.versions_at
    monkeypatch.setattr(whole_changes, "versions_at", lambda *words: next(looks) and versions_of(*words))
    write(workspace, "arc", "old")
    path = interrupted(workspace, "arc")
    assert values(workspace, "arc") == ["new", "old"]
    whole_changes.read_at_rest(workspace, instance, KEYS)
    assert values(workspace, "arc") == ["old", "old"] and not path.exists()


@pytest.mark.parametrize("damage", ["empty note", "no note at all", "a file gone"])
def test_what_cannot_be_undone_is_said_and_others_are_undone_all_the_same(workspace, instance, damage):
    for name in ("arc", "zoo"):
        write(workspace, name, "old")
    before = workspace.lake.paths("raw.items", "arc")
    paths = {name: interrupted(workspace, name) for name in ("arc", "zoo")}
    if damage == "a file gone":
        for file in before:
            Path(file).unlink()
    else:
        paths["arc"].write_text("" if damage == "empty note" else "[]")
    with pytest.raises(LakeError, match=r"^arc-\w+: an interrupted change cannot be undone \(.*\); delete "):
        whole_changes.undo_all_unfinished(workspace, instance)
    assert values(workspace, "zoo") == ["old", "old"] and not paths["zoo"].exists()
    paths["arc"].unlink()
    whole_changes.undo_all_unfinished(workspace, instance)
