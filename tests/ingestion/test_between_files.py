"""The rules between files: order never matters, and what leaves leaves no trace."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval_pipeline.ingestion.batch import ledger_of
from capeval_pipeline.ingestion.reading import Request
from capeval_pipeline.storage.stored_rows import as_table
from tests.formats.reading import write
from tests.ingestion.workspaces import MemoryWorkspace

HEADER = "item_id,model,score\n"


def cells(workspace) -> dict[tuple, tuple]:
    return {
        (row["item_id"], row["model_id"], row["generation_id"]): (row["status"], row["score"])
        for row in workspace.rows("raw.generations")
    }


def snapshot(workspace) -> dict[str, list[str]]:
    """All rows of all raw tables; the ledger's history of replaced files and clock apart."""
    found = {}
    for benchmark_id, tables in sorted(workspace.raw.items()):
        for key, table in tables.items():
            rows = [row for row in table.to_pylist() if row.get("replaced_by_file_id") is None]
            for row in rows:
                row.pop("ingested_at", None)
            found[f"{benchmark_id} {key}"] = sorted(json.dumps(row, default=str) for row in rows)
    return {name: rows for name, rows in found.items() if rows}


def files_of(folder, contents: dict[str, str]):
    return [write(folder / name, HEADER + text) for name, text in contents.items()]


CONTENTS = {
    "a.csv": "q1,elm,1\nq2,elm,0\n",
    "b.csv": "q1,elm,0\nq2,elm,0\nq3,elm,1\n",
    "c.csv": "q1,elm,1\nq2,elm,\nq3,elm,N/A\nq1,oak,1\n",
}


def test_every_order_of_files_gives_the_same_tables(tmp_path):
    seen = []
    for number, order in enumerate(itertools.permutations(CONTENTS)):
        data = tmp_path / f"w{number}"
        workspace = MemoryWorkspace(data)
        files_of(data / "inbox" / "b", CONTENTS)
        for name in order:
            workspace.ingest([data / "inbox" / "b" / name])
        seen.append(snapshot(workspace))
    assert all(found == seen[0] for found in seen)
    assert cells(workspace) == {
        ("q1", "elm", 0): ("invalid", None),
        ("q2", "elm", 0): ("ok", 0.0),
        ("q3", "elm", 0): ("ok", 1.0),
        ("q1", "oak", 0): ("ok", 1.0),
    }
    ledger = {row["path"].rsplit("/", 1)[-1]: row for row in workspace.rows("raw.files")}
    assert all(row["n_read"] == row["n_kept"] + row["n_rejected"] + row["n_duplicate"] for row in ledger.values())
    assert [ledger[name]["n_rejected"] for name in CONTENTS] == [1, 1, 1]


ROWS = st.tuples(st.sampled_from("pq"), st.sampled_from("mn"), st.sampled_from(["0", "1", "", "7"]))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=2, max_size=3, unique_by=str))
def test_taking_a_file_out_gives_what_a_build_without_it_gives(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("out")
    texts = ["".join(f"{item},{model},{score}\n" for item, model, score in rows) for rows in files]
    names = [f"f{number}.csv" for number in range(len(texts))]
    both, clean = MemoryWorkspace(root / "both"), MemoryWorkspace(root / "clean")
    for workspace, kept in ((both, names), (clean, names[1:])):
        folder = workspace.data / "inbox" / "b"
        paths = files_of(folder, {name: text for name, text in zip(names, texts, strict=True) if name in kept})
        workspace.ingest(paths)
    both.forget([both.data / "inbox" / "b" / names[0]])
    assert snapshot(both) == snapshot(clean)


def test_a_replaced_file_leaves_its_ledger_row_and_nothing_else(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    path = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\nq9,ash,0\n"})[0]
    first = workspace.ingest([path]).reports[0]
    write(path, HEADER + "q1,elm,0\n")
    second = workspace.ingest([path]).reports[0]
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 0.0)}
    assert [row["model_id"] for row in workspace.rows("raw.models")] == ["elm"]
    ledger = {row["file_id"]: row["replaced_by_file_id"] for row in workspace.rows("raw.files")}
    assert ledger == {first.file_id: second.file_id, second.file_id: None}
    write(path, HEADER + "q1,elm,1\nq9,ash,0\n")
    workspace.ingest([path])
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 1.0), ("q9", "ash", 0): ("ok", 0.0)}


def test_forgetting_a_file_forgets_what_it_had_replaced(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    path, other = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\n", "o.csv": "q1,oak,1\n"})
    for score in (1, 0, 1, 0.5):  # the first content comes back
        write(path, HEADER + f"q1,elm,{score}\n")
        workspace.ingest([path, other])
    ids = {row["file_id"] for row in workspace.rows("raw.files")}
    assert len(ids) == 4
    assert {row["replaced_by_file_id"] for row in workspace.rows("raw.files")} - {None} <= ids
    workspace.forget([path])
    assert [(row["path"], row["replaced_by_file_id"]) for row in workspace.rows("raw.files")] == [
        ("inbox/b/o.csv", None)
    ]
    write(path, HEADER + "q1,elm,0\n")
    assert workspace.ingest([path]).reports[0].status == "read"
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 0.0), ("q1", "oak", 0): ("ok", 1.0)}


def test_an_unchanged_file_is_reported_under_its_own_id(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    paths = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\n", "b.csv": "q1,oak,1\n"})
    workspace.ingest(paths)
    write(paths[1], paths[0].read_text())
    first = {report.path: report.file_id for report in workspace.ingest(paths).reports}
    again = workspace.ingest(paths).reports
    assert {report.status for report in again} == {"unchanged"}
    assert {report.path: report.file_id for report in again} == first


def test_a_bad_new_version_of_a_file_leaves_the_old_rows(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    path = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\n"})[0]
    workspace.ingest([path])
    write(path, "")
    assert workspace.ingest([path]).has_refusals
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 1.0)}


def test_a_changed_benchmark_yml_reads_its_files_again(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "b"
    files_of(folder, {"a.csv": "q1,elm,5\n"})
    assert workspace.ingest([folder]).n_rejected == 1
    write(folder / "benchmark.yml", "score_range: [0, 10]\nerror_policy: wrong\nderive: {seed: 3}\n")
    assert workspace.ingest([folder]).n_rejected == 0
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 5.0)}
    facts = workspace.rows("raw.benchmarks")[0]
    assert (facts["score_high"], facts["error_policy"], facts["settings"]) == (10.0, "wrong", '{"derive": {"seed": 3}}')


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("generations", {("q1", "elm", 0): ("ok", 1.0), ("q1", "elm", 1): ("ok", 1.0)}),
        ("reject", {("q1", "elm", 0): ("ok", 1.0)}),
    ],
)
def test_equal_answers_of_two_files_are_repetitions_or_generations(tmp_path, rule, wanted):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "b"
    write(folder / "benchmark.yml", f"on_conflict: {rule}\n")
    files_of(folder, {"a.csv": "q1,elm,1\n", "b.csv": "q1,elm,1.0\n"})
    workspace.ingest([folder])
    assert cells(workspace) == wanted


def test_the_newest_file_may_decide_a_conflict(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "b"
    write(folder / "benchmark.yml", "on_conflict: newest\n")
    write(folder / "old.csv", "item_id,model,score,created_at\nq1,elm,1,2026-01-01\n")
    write(folder / "new.csv", "item_id,model,score,created_at\nq1,elm,0,2026-02-01\n")
    workspace.ingest([folder])
    assert cells(workspace) == {("q1", "elm", 0): ("ok", 0.0)}
    assert sum(row["n_duplicate"] for row in workspace.rows("raw.files")) == 1


def test_one_declared_id_with_two_texts_is_two_items(tmp_path):
    folder = tmp_path / "inbox" / "b"
    write(folder / "a.csv", "item_id,model,score,prompt\nq1,elm,1,Name a river.\n")
    write(folder / "b.csv", "item_id,model,score,prompt\nq1,oak,0,Name a lake.\nq2,oak,0,Name a lake.\n")
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([folder])
    items = {row["item_id"]: row["declared_ids"] for row in workspace.rows("raw.items")}
    assert sorted(items) == ["q1~" + name[3:] for name in sorted(items) if name != "q2"] + ["q2"]
    assert len(items) == 3
    assert all("id_reused" in {remark.reason for remark in report.warnings} for report in batch.reports)


def test_spellings_of_one_name_in_one_file_are_one_model(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    path = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\nq1,elm ,0\nq2, elm,1\n"})[0]
    report = workspace.ingest([path]).reports[0]
    assert (report.n_kept, report.n_rejected) == (1, 2)
    assert workspace.rows("raw.models")[0]["raw_names"] == [" elm", "elm", "elm "]


def test_equal_content_at_two_paths_is_read_once(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    folder = tmp_path / "inbox" / "b"
    files_of(folder, {"a.csv": "q1,elm,1\n", "copy.csv": "q1,elm,1\n"})
    statuses = [report.status for report in workspace.ingest([folder]).reports]
    assert statuses == ["read", "unchanged"]


def test_costs_stay_apart_as_reported_recomputed_and_judged(tmp_path):
    folder = tmp_path / "inbox" / "b"
    write(folder / "benchmark.yml", "prices: prices.yml\n")
    write(folder / "prices.yml", "elm: {input: 2, output: 8}\nfree: {input: 0, output: 0}\n")
    write(
        folder / "a.csv",
        "item_id,model,score,input_tokens,output_tokens,cost_usd,judge_cost_usd\n"
        "q1,elm,1,1000,500,,0.5\nq2,elm,1,1000,500,0,\nq1,free,1,10,10,0,\nq2,elm2,1,10,10,,\n",
    )
    workspace = MemoryWorkspace(tmp_path)
    workspace.ingest([folder])
    told = {
        (row["item_id"], row["model_id"]): (row["cost_usd"], row["cost_source"], row["judge_cost_usd"])
        for row in workspace.rows("raw.generations")
    }
    assert told == {
        ("q1", "elm"): (pytest.approx(0.006), "recomputed", 0.5),
        ("q2", "elm"): (pytest.approx(0.006), "recomputed", None),
        ("q1", "free"): (0.0, "reported", None),
        ("q2", "elm2"): (None, "unknown", None),
    }


def test_no_text_keeps_prompts_out_of_every_table(tmp_path):
    folder = tmp_path / "inbox" / "b"
    write(folder / "a.csv", "item_id,model,score,prompt\nq1,elm,maybe,Secret river.\n")
    workspace = MemoryWorkspace(tmp_path)
    workspace.ingest([folder], Request(keep_text=False))
    tables = [
        table for group in (workspace.raw, workspace.readings) for found in group.values() for table in found.values()
    ]
    assert not any("Secret" in str(as_table(table).to_pylist()) for table in tables)
    assert workspace.rows("raw.items")[0]["content_hash"]


def test_a_file_whose_commit_was_cut_short_is_read_again(tmp_path):
    workspace = MemoryWorkspace(tmp_path)
    path = files_of(tmp_path / "inbox" / "b", {"a.csv": "q1,elm,1\n"})[0]
    workspace.ingest([path])
    readings, raw = workspace.readings["b"], workspace.raw["b"]
    assert len(ledger_of(readings["files"].table(), raw["raw.files"])) == 1
    assert ledger_of(readings["files"].table(), raw["raw.files"].slice(0, 0)) == []
