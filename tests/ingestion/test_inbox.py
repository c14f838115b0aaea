"""The drop folder: files are taken whole, once, and again when they change."""

import os
from pathlib import Path

import pytest

from capeval_pipeline.ingestion import inbox as inbox_module
from capeval_pipeline.ingestion.inbox import look, settled, taken_by

NOW = 1_900_000_000.0


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "inbox"


def put(inbox: Path, name: str, text: str = "item_id,model,score\nq1,m,1\n", *, age: float = 10.0) -> Path:
    path = inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (NOW - age, NOW - age))
    return path


def taken_now(inbox: Path, before=None, taken=None):
    now = look(inbox)
    return settled(inbox, now if before is None else before, now, taken or {}, NOW)


def test_a_file_seen_twice_alike_and_old_enough_is_taken(inbox):
    put(inbox, "arc/a.csv")
    assert [(found.benchmark, found.paths) for found in taken_now(inbox)] == [("arc", (inbox / "arc",))]


def test_a_file_seen_for_the_first_time_waits(inbox):
    put(inbox, "arc/a.csv")
    assert taken_now(inbox, before={}) == []


def test_a_file_that_grows_waits(inbox):
    put(inbox, "arc/a.csv", "item_id")
    before = look(inbox)
    put(inbox, "arc/a.csv")
    assert taken_now(inbox, before=before) == []


def test_a_file_younger_than_two_seconds_waits(inbox):
    put(inbox, "arc/a.csv", age=1.0)
    assert taken_now(inbox) == []


def test_a_growing_file_does_not_hold_up_a_whole_one_beside_it(inbox):
    whole = put(inbox, "arc/a.csv")
    put(inbox, "arc/b.csv", age=0.5)
    assert [found.paths for found in taken_now(inbox)] == [(whole,)]


def test_a_folder_that_is_one_unit_waits_for_all_its_members(inbox):
    put(inbox, "desk/items.csv", "item_id\nq1\n")
    put(inbox, "desk/results.csv", age=0.5)
    assert taken_now(inbox) == []


def test_a_run_folder_waits_for_all_its_members(inbox):
    put(inbox, "desk/runs/riddle/scenario_state.json", "{}")
    put(inbox, "desk/runs/riddle/run_spec.json", "{}")
    put(inbox, "desk/runs/riddle/per_instance_stats.json", "[", age=0.5)
    assert taken_now(inbox) == []


@pytest.mark.parametrize("name", [".hidden.csv", "~$a.csv", "a.csv.part", "a.tmp", "a.csv~", "Thumbs.db"])
def test_leftovers_are_not_seen(inbox, name):
    put(inbox, f"arc/{name}")
    assert look(inbox) == {}


def test_what_was_taken_is_not_taken_again_until_it_changes(inbox):
    put(inbox, "arc/a.csv")
    first = taken_now(inbox)[0]
    taken = taken_by(first, inbox, look(inbox))
    assert taken_now(inbox, taken=taken) == []
    put(inbox, "arc/a.csv", "item_id,model,score\nq1,m,0\n", age=5.0)
    assert taken_now(inbox, taken=taken)[0].key != first.key


def test_the_key_follows_the_content_and_not_the_clock(inbox):
    put(inbox, "arc/a.csv")
    first = taken_now(inbox)[0].key
    put(inbox, "arc/a.csv", age=99.0)
    assert taken_now(inbox)[0].key == first


def test_files_lying_directly_in_the_inbox_belong_to_no_benchmark(inbox):
    put(inbox, "README.md")
    assert look(inbox) == {}


def test_a_look_costs_the_same_for_each_file_however_many_benchmarks_there_are(tmp_path, monkeypatch):
    """Counted, not timed: a file is only ever compared with paths of its own benchmark."""
    compared = []
    compare = inbox_module._is_in_any
    monkeypatch.setattr(
        inbox_module, "_is_in_any", lambda name, paths, root: compared.append(name) or compare(name, paths, root)
    )

    def comparisons_a_file(n_benchmarks):
        root = tmp_path / f"of_{n_benchmarks}"
        for number in range(n_benchmarks):
            for name in ("a.csv", "b.csv", "deep/c.csv"):
                put(root, f"bench{number}/{name}")
        compared.clear()
        found = taken_now(root)
        assert sum(len(taken_by(entry, root, look(root))) for entry in found) == 3 * n_benchmarks
        return len(compared) / (3 * n_benchmarks)

    assert comparisons_a_file(12) == comparisons_a_file(1)


def test_folders_whose_names_begin_alike_are_kept_apart(inbox):
    put(inbox, "arc/deep/a.csv")
    put(inbox, "arc/deep2/items.csv")
    put(inbox, "arc/deep2/results.csv", age=0.5)  # still written, so its folder waits as a whole
    (found,) = taken_now(inbox)
    assert found.paths == (inbox / "arc/deep",)
    assert list(taken_by(found, inbox, look(inbox))) == ["arc/deep/a.csv"]
