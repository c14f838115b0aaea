"""The golden cases of ingest: every figure of expected.json, in any order of files, and again without a change."""

import json
import math
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from capeval_pipeline.formats import READERS
from capeval_pipeline.ingestion.batch import Batch
from tests.ingestion.workspaces import MemoryWorkspace

CASES = [
    "aggregate_only", "arena_one_hot", "bigcodebench_two_samples", "canonical_crowd_pairs", "canonical_same_text",
    "changed_file_replaces", "conflict_between_files", "costs_audit", "evalplus_no_model", "every_eval_ever",
    "helm_perturbed", "inbox_leftovers", "inspect_dict_chosen", "inspect_dict_refused", "inspect_epochs",
    "inspect_judge_cost", "inspect_retry", "inspect_unfinished_zip", "inspect_usage_classes",
    "livecodebench_three_samples", "lm_eval_appended", "lm_eval_group", "lm_eval_list_metric", "lm_eval_two_metrics",
    "long_csv_minimal", "long_declared_range", "long_duplicate_and_conflict", "long_generations", "long_gz",
    "long_ids_look_typed", "long_jsonl_bad_line", "long_jsonl_big_ids", "long_jsonl_line_separators",
    "long_latin1_row", "long_missing_keys", "long_multiline_fields", "long_names_like_missing", "long_pandas_export",
    "long_ragged_rows", "long_scores_unusable", "lookalike_models", "mapping_join", "mapping_wrong_column",
    "mt_bench_pairs", "mt_bench_single", "parquet_categorical_bool", "parquet_duplicate_column", "promptfoo_labels",
    "swebench_contradiction", "twin_models", "wide_excel_sep_line", "wide_no_item_key", "wide_tsv",
]  # fmt: skip
FORMAT_OF_CASE = {
    "arena_one_hot": "arena", "bigcodebench_two_samples": "bigcodebench", "evalplus_no_model": "evalplus",
    "every_eval_ever": "every_eval_ever", "helm_perturbed": "helm", "livecodebench_three_samples": "livecodebench",
    "mapping_join": "mapping", "mapping_wrong_column": "mapping", "mt_bench_pairs": "mt_bench",
    "mt_bench_single": "mt_bench", "promptfoo_labels": "promptfoo", "swebench_contradiction": "swebench",
}  # fmt: skip
"""Cases of formats with a reader of their own; the others are named by their beginning or need no special reader."""


def needed_reader(case: str) -> str | None:
    if case.startswith("inspect"):
        return "inspect"
    return FORMAT_OF_CASE.get(case)


@pytest.fixture(params=CASES)
def case(request, shared) -> Path:
    folder = shared / "cases" / "ingest" / request.param
    if not folder.is_dir():
        pytest.skip(f"no case {request.param} in {shared}")
    reader = needed_reader(request.param)
    assert reader is None or reader in READERS, f"no reader for {reader}"
    return folder


def laid_in_inbox(case: Path, data: Path, name: str) -> Path:
    target = data / "inbox" / name
    shutil.copytree(case / "input", target, copy_function=shutil.copyfile)
    return target


def lay_over(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)


def ingest_case(case: Path, data: Path, *, is_reversed: bool) -> tuple[MemoryWorkspace, Batch, Batch | None]:
    """Ingest a case, then what is laid over it; reversed gives the files one by one, last first."""
    workspace = MemoryWorkspace(data)
    inbox = laid_in_inbox(case, data, case.name)
    is_one_unit = any((inbox / name).exists() for name in ("items.csv", "results.csv", "pairs.csv"))
    paths = [inbox]
    if is_reversed and not is_one_unit:
        paths = sorted((path for path in inbox.rglob("*") if path.is_file() and path.stat().st_size), reverse=True)
        paths = [path for path in paths if "helm" not in case.name] or [inbox]
    first = workspace.ingest(paths)
    second = None
    if (case / "then").is_dir():
        lay_over(case / "then", inbox)
        second = workspace.ingest([inbox])
    return workspace, first, second


def by_unit(batch: Batch, case: Path) -> dict[str, Any]:
    root = f"inbox/{case.name}"
    return {report.path.removeprefix(root).lstrip("/"): report for report in batch.reports}


def check_files(expected: dict[str, Any], batch: Batch, case: Path) -> None:
    reports = by_unit(batch, case)
    for unit, figures in expected.items():
        assert unit in reports, f"{unit} is not among {sorted(reports)}"
        report = reports[unit]
        for name in ("format", "status", "n_read", "n_kept", "n_rejected", "n_duplicate"):
            if name in figures:
                assert getattr(report, name) == figures[name], (unit, name, report)
        assert report.status == "unchanged" or report.n_read == report.n_kept + report.n_rejected + report.n_duplicate
        if "rejections" in figures:
            told = Counter((remark.reason, remark.location) for remark in report.rejections)
            assert Counter(rejection["reason"] for rejection in figures["rejections"]) == Counter(
                reason for reason, _ in told.elements()
            ), (unit, report.rejections)
            for rejection in figures["rejections"]:
                if "location" in rejection:
                    assert (rejection["reason"], rejection["location"]) in told
        for reason in figures.get("warnings", []):
            assert reason in {remark.reason for remark in report.warnings}, (unit, reason, report.warnings)
        told_words = " ".join(remark.message for remark in [*report.rejections, *report.warnings])
        for word in figures.get("mention", []):
            assert word in told_words
        for remark in [*report.rejections, *report.warnings]:
            assert len(remark.message) <= 300 and "\n" not in remark.message


def check_tables(expected: dict[str, Any], workspace: MemoryWorkspace) -> None:
    generations = workspace.rows("raw.generations")
    items = workspace.rows("raw.items")
    names = {row["item_id"]: {row["item_id"], row["prompt"], *row["declared_ids"]} for row in items}
    if "generations" in expected:
        assert len(generations) == len(expected["generations"])
        for wanted in expected["generations"]:
            found = [
                row for row in generations
                if row["model_id"] == wanted["model"] and row["generation_id"] == wanted["generation"]
                and wanted["item"] in names[row["item_id"]]
            ]  # fmt: skip
            assert len(found) == 1, wanted
            for name, value in wanted.items():
                if name not in ("model", "item", "generation"):
                    same = found[0][name] == (pytest.approx(value) if isinstance(value, float) else value)
                    assert same, (wanted, name, found[0])
            assert found[0]["status"] == "ok" or found[0]["score"] is None
    scores = defaultdict(list)
    for row in generations:
        if row["status"] == "ok":
            scores[row["model_id"]].append(row["score"])
    for model, mean in expected.get("means", {}).items():
        assert math.fsum(scores[model]) / len(scores[model]) == pytest.approx(mean, abs=1e-12)
    if "statuses" in expected:
        assert Counter(row["status"] for row in generations) == expected["statuses"]
    if "n_items" in expected:
        assert len(items) == expected["n_items"]
    if "models" in expected:
        assert sorted(row["model_id"] for row in workspace.rows("raw.models")) == sorted(expected["models"])
    if "categories" in expected:
        assert Counter(row["category"] for row in items) == expected["categories"]
    judgments = workspace.rows("raw.judgments")
    if "n_judgments" in expected:
        assert len(judgments) == expected["n_judgments"]
    if "judgments_outcomes" in expected:
        assert Counter(str(row["outcome"]) for row in judgments) == expected["judgments_outcomes"]
    values = defaultdict(list)
    for row in workspace.rows("raw.metric_values"):
        if row["value"] is not None:
            values[row["metric"]].append(row["value"])
    for metric, mean in expected.get("metric_means", {}).items():
        assert math.fsum(values[metric]) / len(values[metric]) == pytest.approx(mean)
    costs = defaultdict(list)
    for row in generations:
        costs[row["model_id"]].append(row["cost_usd"])
    for model, total in expected.get("cost_sums", {}).items():
        known = [cost for cost in costs[model] if cost is not None]
        assert (math.fsum(known) if known else None) == (None if total is None else pytest.approx(total, abs=1e-15))
    if "benchmark_ids" in expected:
        assert sorted(workspace.raw) == sorted(expected["benchmark_ids"])


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "reversed"])
def test_case_gives_the_figures_worked_out_by_hand(case, tmp_path, is_reversed):
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    workspace, first, second = ingest_case(case, tmp_path, is_reversed=is_reversed)
    check_files(expected["files"], first, case)
    if second is not None:
        check_files(expected.get("files_then", {}), second, case)
    check_tables(expected, workspace)
    if "exit" in expected:
        assert (1 if first.has_refusals else 0) == expected["exit"]
    if "n_units" in expected:
        assert sum(report.status != "companion" for report in first.reports) == expected["n_units"]


def test_case_again_changes_nothing(case, tmp_path):
    workspace, _, _ = ingest_case(case, tmp_path, is_reversed=False)
    before = dict(workspace.readings)
    again = workspace.ingest([tmp_path / "inbox" / case.name])
    assert again.changes == {}
    assert {report.status for report in again.reports} <= {"unchanged", "refused", "companion"}
    assert all(report.n_duplicate == report.n_read for report in again.reports if report.status == "unchanged")
    assert workspace.readings == before


def test_order_of_files_leaves_no_trace_in_any_table(case, tmp_path):
    forwards, _, _ = ingest_case(case, tmp_path / "forwards", is_reversed=False)
    backwards, _, _ = ingest_case(case, tmp_path / "backwards", is_reversed=True)
    assert sorted(forwards.raw) == sorted(backwards.raw)
    for benchmark_id, tables in forwards.raw.items():
        for key, table in tables.items():
            other = backwards.raw[benchmark_id][key]
            columns = [name for name in table.column_names if name != "ingested_at"]
            rows = sorted(json.dumps(row, default=str) for row in table.select(columns).to_pylist())
            assert rows == sorted(json.dumps(row, default=str) for row in other.select(columns).to_pylist()), key
