"""Every code of a refusal, a repetition or a warning, made to happen through the command: its place and its advice.

Each case is a folder of files. One call of `capeval ingest --dry-run --json` reads all folders, which shows besides
that no case harms another.
"""

import gzip
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline import cli
from tests.formats import test_helm, test_inspect, test_lm_eval, test_swebench
from tests.formats.reading import write
from tests.formats.zips import DEFLATE, write_zip

SETTINGS = "[limits]\nline_bytes = 3000\ndocument_bytes = 200000\nn_bad_rows = 10\narchive_members = 5\n"
HEADER = "item_id,model,score\n"
GOOD = HEADER + "g1,elm,1\n"
COSTS = "item_id,model,score,cost_usd,input_tokens,output_tokens\n"
PRICES = {"benchmark.yml": "prices: prices.yml\n", "prices.yml": "elm: {input: 1000000, output: 1000000}\n"}
INSPECT = test_inspect.header()
NESTED = "[" * 150 + "]" * 150


def as_json(value: object) -> str:
    return json.dumps(value)


def lines(*records: dict) -> str:
    return "".join(as_json(record) + "\n" for record in records)


def log(*samples: dict, **more) -> str:
    return as_json(INSPECT | more | {"samples": list(samples)})


def parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"item_id": ["q"], "model": ["elm"], "score": [1.0]}), path)
    return path.read_bytes()


def cut_parquet(folder: Path) -> None:
    write(folder / "a.parquet", parquet(folder / "a.parquet")[:-9])


def damaged_gzip(folder: Path) -> None:
    packed = bytearray(gzip.compress(GOOD.encode() * 50))
    packed[-6] ^= 255
    write(folder / "a.csv.gz", bytes(packed))


def leading_out(folder: Path) -> None:
    write_zip(folder / "a.eval", [("../x.json", b"{}"), ("header.json", as_json(INSPECT).encode())])


def without_header(folder: Path) -> None:
    spec = {"version": 2, "eval": INSPECT["eval"]}
    members = {"_journal/start.json": spec, "samples/a_epoch_1.json": test_inspect.sample("a")}
    write_zip(folder / "a.eval", [(name, as_json(content).encode()) for name, content in members.items()])


def of_unknown_method(folder: Path) -> None:
    path = write_zip(folder / "a.eval", [("header.json", as_json(INSPECT).encode())], DEFLATE)
    raw = bytearray(path.read_bytes())
    for at in (8, raw.index(b"PK\1\2") + 10):
        raw[at : at + 2] = (96).to_bytes(2, "little")  # a method nobody has
    path.write_bytes(bytes(raw))


def many_members(folder: Path) -> None:
    write_zip(folder / "a.eval", [(f"samples/{n}_epoch_1.json", b"{}") for n in range(6)])


def linked_out(folder: Path) -> None:
    outside = write(folder.parent.parent / "outside.csv", GOOD)
    os.symlink(outside, folder / "a.csv")


def piped(folder: Path) -> None:
    os.mkfifo(folder / "a.csv")


def appended_twice(folder: Path) -> None:
    test_lm_eval.lay(folder, [test_lm_eval.sample(0, filter_="strict", exact_match=1.0)], test_lm_eval.results(
        configs={"sums": {"task": "sums", "repeats": 4}}))  # fmt: skip


def helm_run(metric: str) -> Callable[[Path], None]:
    def lay(folder: Path) -> None:
        test_helm.lay(folder, [test_helm.instance("id1", **{metric: 1})])

    return lay


def same_answers() -> str:
    return HEADER + "".join(f"q{n},{model},{n % 2}\n" for n in range(12) for model in ("elm", "oak"))


VOTES = "question_id,model_a,model_b,winner\n"
GAMES = {"uid": "u", "judge": "j", "model": "a", "baseline": "b"}
SAMPLE = test_inspect.sample
ASKED = "item_id,model,score,prompt\n"
SPEC = INSPECT["eval"]
WARM = {"model_generate_config": {"temperature": 1}}
CASES: dict[str, tuple[dict[str, str | bytes] | Callable[[Path], None], str, str]] = {
    # -- of files: code → files (or what lays them), location, part of the message
    "empty_file": ({"a.csv": ""}, "file", "has 0 bytes; expected results. Copy or export it again."),
    "truncated": (cut_parquet, "file", "Copy or export it again."),
    "truncated (JSON)": ({"a.json": log(SAMPLE("a"))[:-30]}, "file", "inside an unfinished JSON value"),
    "unknown_format": ({"a.jsonl": '{"a": 1}\n'}, "file", "or mapping.yml: {item_id"),
    "ambiguous_format": (
        {"a.jsonl": lines(GAMES | {"games": [{"score": "A>B"}], "question_id": 1, "turn": 1, "model_1": "a",
                                   "model_2": "b", "g1_winner": "tie", "g2_winner": "tie"})},
        "file", "Say --format arena_hard or --format mt_bench."),
    "bad_encoding": ({"a.csv": GOOD.encode("utf-16-le")}, "file", "Save as UTF-8."),
    "bad_encoding (row)": ({"a.csv": GOOD.encode() + b"\xff,elm,1\n"}, "line 3", "byte 0xff"),
    "aggregate_only": ({"a.csv": "model,score,CI\nelm,0.5,0.1\n"}, "file", "Export the samples."),
    "header_only": ({"a.json": as_json({"eval": INSPECT["eval"], "status": "started", "plan": {}, "samples": []})},
                    "file", "2 samples claimed, 0 present"),
    "no_scores": ({"a.json": log(SAMPLE("a", scores={}))}, "file", "Score the log first."),
    "version_too_new": ({"a.json": log(SAMPLE("a"), version=9)}, "file", "version 9 of the log; expected at most 2"),
    "unfinished": (without_header, "file", "Read of it: 1 sample."),
    "pickle_refused": ({"a.pkl": pickle.dumps({"a": 1})}, "file", "Export it to one of them."),
    "archive_limit": ({"a.csv.gz": gzip.compress(gzip.compress(GOOD.encode()))}, "file", "Inflate it once."),
    "archive_limit (members)": (many_members, "file", "at most 5 (setting `limits.archive_members`)"),
    "archive_damaged": (damaged_gzip, "file", "Copy it again."),
    "path_outside": (leading_out, "member ../x.json", "leads out of the archive"),
    "link_refused": (linked_out, "file", "a link that stays inside"),
    "not_a_file": (piped, "file", "a regular file"),
    "file_too_large": ({"a.json": log(*[SAMPLE(f"s{n}") for n in range(2000)])}, "file", "`limits.document_bytes`"),
    "line_too_long": ({"a.csv": GOOD + f"{'x' * 4000},elm,1\n"}, "line 3", "setting `limits.line_bytes`"),
    "nesting_too_deep": ({"a.jsonl": lines({"item_id": "g", "model": "elm", "score": 1}) +
                          f'{{"item_id": "q", "model": "elm", "score": {NESTED}}}\n'}, "line 2", "100 levels"),
    "nesting_too_deep (file)": ({"a.json": log(SAMPLE("a"), plan=json.loads(NESTED))}, "file", "100 levels"),
    "codec_missing": (of_unknown_method, "member header.json", "expected stored, deflate, bzip2, lzma or zstd"),
    "too_many_bad_rows": ({"a.csv": GOOD + "a,b\n" * 12}, "file", "setting `limits.n_bad_rows`"),
    "columns_missing": ({"a.csv": "item_id,score\nq,1\n"}, "file", "or give --model."),
    "duplicate_column": ({"a.csv": "item_id,model,score,score\nq,elm,1,0\n"}, "column score", "Drop or rename one"),
    "look_alike_columns": ({"a.csv": "item_id,lab/elm,lab_elm\nq,1,0\n"}, "column lab/elm", "lab_elm"),
    "duplicate_item": ({"a.csv": "item_id,elm,oak\nq,1,0\nq,0,0\n"}, "key q", "q"),
    "summary_row": ({"a.csv": "item_id,elm,oak\nq,1,0\naverage,1,0\n"}, "line 3", "average"),
    "mapping_invalid": ({"a.jsonl": '{"name": "q"}\n', "mapping.yml": "item_id: nmae\nmodel: name\nscore: name\n"},
                        "key item_id", "Did you mean name?"),
    "config_invalid": ({"a.csv": GOOD, "benchmark.yml": "scor_range: [0, 1]\n"}, "key scor_range",
                       "Did you mean score_range?"),
    "instances_needed": ({"elm/results.json": as_json(test_swebench.RESULTS)}, "file", "instances: FILE"),
    "metric_needed": ({"a.json": log(SAMPLE("a", scores={"match": {"value": {"f1": 1, "em": 0}}}))}, "file",
                      "metric in benchmark.yml, or --metric"),
    "metric_unknown": ({"a.csv": "item_id,model,metric,score\nq,elm,acc,1\n", "benchmark.yml": "metric: f1\n"}, "file",
                       "one of acc"),
    "model_unknown": ({"results/a_eval_all.json": as_json([{"question_id": "q", "question_content": "Q",
                       "graded_list": [True]}])}, "file", "or give --model, or model in benchmark.yml"),
    # -- of rows
    "bad_json": ({"a.jsonl": lines({"item_id": "q", "model": "elm", "score": 1}) + "{]\n"}, "line 2", "is no JSON"),
    "bad_json (key twice)": ({"a.jsonl": '{"item_id": "g", "model": "elm", "score": 1}\n'
                              '{"item_id": "q", "model": "elm", "score": 1, "score": 0}\n'}, "line 2", "given twice"),
    "bad_row": ({"a.csv": GOOD + "q,elm\n"}, "line 3", "expected 3 as in the header"),
    "key_missing": ({"a.csv": GOOD + ",elm,1\n"}, "line 3", "item_id is empty; expected a name"),
    "score_not_numeric": ({"a.csv": GOOD + "q,elm,good\n"}, "line 3", "score is 'good'; expected a number from 0 to 1"),
    "score_not_finite": ({"a.csv": GOOD + "q,elm,inf\n"}, "line 3", "score is 'inf'"),
    "score_out_of_range": ({"a.csv": GOOD + "q,elm,7\n"}, "line 3", "Declare score_range in benchmark.yml."),
    "generation_bad": ({"a.csv": "item_id,model,score,generation\nq,elm,1,-1\n"}, "line 2", "a whole number from 0"),
    "status_unknown": ({"a.csv": "item_id,model,score,status\nq,elm,1,fine\n"}, "line 2", "ok, error, unscored"),
    "item_unknown": ({"results.csv": GOOD, "items.csv": "item_id,prompt\nother,Q\n"}, "results.csv line 2",
                     "an item listed in items.*"),
    "join_missing": ({"a.jsonl": lines({"t": 1, "s": 1}, {"t": 2, "s": 1}), "b.jsonl": lines({"id": 1, "q": "x"}),
                      "mapping.yml": "files: a.jsonl\njoin: {file: b.jsonl, on: [t, id]}\nitem_id: join.q\n"
                      "model: {value: elm}\nscore: s\n"}, "line 2", "a record of b.jsonl"),
    "no_answers": ({"elm/a_eval_all.json": as_json([{"question_id": "q", "question_content": "Q", "graded_list": []}])},
                   "samples[0]", "a grade an answer"),
    "conflicting_duplicate": ({"a.csv": GOOD + "g1,elm,0\n"}, "line 3", "(first at line 2); expected one value"),
    "conflicting_files": ({"a.csv": GOOD, "b.csv": HEADER + "g1,elm,0\n"}, "line 2", "on_conflict in benchmark.yml"),
    # -- of judgments
    "unknown_label": ({"a.csv": VOTES + "1,elm,oak,elm\n" + "2,elm,oak,tie\n" * 4}, "line 2", "winner is 'elm'"),
    "no_verdict": ({"a.csv": VOTES + "1,elm,oak,\n2,elm,oak,tie\n"}, "line 2", "expected"),
    "self_comparison": ({"a.csv": VOTES + "1,elm,elm,tie\n"}, "line 2", "'elm' against itself; expected two models"),
    "incomplete_orders": ({"a.jsonl": lines(GAMES | {"games": [{"score": "A>B"}, {"score": None}]})}, "line 1",
                          "Neither counts."),
    # -- warnings
    "coverage": ({"a.json": log(SAMPLE("a"))}, "file", "1 sample; expected 2 as the data set has"),
    "repeats_scored_once": (appended_twice, "file", "4"),
    "rewritten_sample": ({"a.json": log(SAMPLE("a"), SAMPLE("a", value="I"))}, "file", "The later one counts."),
    "retried": ({"a.csv": "item_id,model,score,status\nq,elm,,error\n", "b.csv": HEADER + "q,elm,1\n"}, "file",
                "The later ok stands."),
    "metric_defaulted": (helm_run("exact_match"), "file", "Declare metric in benchmark.yml to choose another."),
    "metric_needed (HELM)": (helm_run("toxicity"), "member per_instance_stats.json", "toxicity"),
    "extra_columns": ({"a.csv": "item_id,model,score,color\nq,elm,1,red\n"}, "file", "columns not used: color"),
    "summary_column": ({"a.csv": "item_id,elm,oak,average\nq,1,0,0.5\n"}, "column average", "left out"),
    "order_dependent": ({"a.jsonl": lines(GAMES | {"games": [{"score": "A>B"}, {"score": "A>B"}]})}, "file",
                        "1 of 1 pair with another verdict in the other order"),
    "id_reused": ({"a.csv": ASKED + "q,elm,1,One?\n", "b.csv": ASKED + "q,oak,1,Two?\n"},
                  "key q", "Each text is an item of its own."),
    "look_alike_model": ({"a.csv": HEADER + "q,lab/elm,1\nq,elm,0\n"}, "key lab/elm", "`models:` in benchmark.yml"),
    "same_vector": ({"a.csv": same_answers()}, "key oak", "the same scores as elm"),
    "settings_differ": ({"a.json": log(SAMPLE("a"), eval=SPEC), "b.json": log(SAMPLE("b"), eval=SPEC | WARM)},
                        "key lab/m[revision=ab12]", "2 different settings"),
    "cost_zero": ({"a.csv": COSTS + "q,elm,1,0,1,1\n"}, "key elm", "or zero_cost: real"),
    "cost_cached": ({"a.json": as_json({"evalId": "e", "results": {"version": 3, "results": [
        {"provider": {"id": "elm"}, "vars": {"q": "Q"}, "success": True, "score": 1, "namedScores": {},
         "response": {"output": "x", "cached": True}}]}})}, "key elm", "cost and latency are unknown"),
    "amount_unusable": ({"a.csv": COSTS + "q,elm,1,$0.5,1,1\n"}, "column cost_usd", "What is none is unknown."),
    "cost_negative": ({"a.csv": COSTS + "q,elm,1,-1,1,1\n"}, "key elm", "it counts as not reported"),
    "cost_mismatch": (PRICES | {"a.csv": COSTS + "q,elm,1,9,1,1\n"}, "key elm", "the reported one counts"),
    "cost_constant_tokens": ({"a.csv": COSTS + "".join(f"q{n},elm,1,,7,7\nq{n},oak,1,,{n},7\n" for n in range(1, 9))},
                             "key elm", "counts that vary as those of other models do"),
    "price_missing": (PRICES | {"a.csv": COSTS + "q,oak,1,,1,1\n"}, "key oak", "a row of the price table"),
}  # fmt: skip
ELSEWHERE = {"changed_while_reading", "duplicate"}
"""Codes that one call cannot make happen, or that --json only counts; tests/ingestion holds them."""

DOCUMENTED = """
empty_file truncated unknown_format ambiguous_format bad_encoding aggregate_only header_only no_scores version_too_new
unfinished pickle_refused archive_limit archive_damaged path_outside link_refused not_a_file file_too_large
line_too_long nesting_too_deep codec_missing changed_while_reading too_many_bad_rows columns_missing duplicate_column
look_alike_columns duplicate_item summary_row mapping_invalid config_invalid instances_needed metric_needed
metric_unknown model_unknown bad_json bad_row key_missing score_not_numeric score_not_finite score_out_of_range
generation_bad status_unknown item_unknown join_missing no_answers conflicting_duplicate conflicting_files unknown_label
no_verdict self_comparison incomplete_orders duplicate coverage repeats_scored_once rewritten_sample retried
metric_defaulted extra_columns summary_column order_dependent id_reused look_alike_model same_vector settings_differ
cost_zero cost_cached cost_negative cost_mismatch cost_constant_tokens price_missing amount_unusable
"""


def folder_of(case: str) -> str:
    return case.replace(" (", "-").replace(")", "").replace(" ", "-")


def code_of(case: str) -> str:
    return case.partition(" (")[0]


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, dict]:
    """Case → what the command says of its files, and the exit code under its empty name."""
    root = tmp_path_factory.mktemp("codes")
    write(root / "ws" / "capeval.toml", SETTINGS)
    for case, (files, _, _) in CASES.items():
        folder = root / "cases" / folder_of(case)
        folder.mkdir(parents=True)
        if callable(files):
            files(folder)
        else:
            for name, content in files.items():
                write(folder / name, content)
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    words = ["capeval", "--data", str(root / "ws"), "ingest", *map(str, sorted((root / "cases").iterdir()))]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", [*words, "--dry-run", "--json"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    found: dict[str, dict] = {"": {"code": ended.value.code, "err": err.getvalue()}}
    for entry in json.loads(out.getvalue()):
        name = Path(entry["path"]).relative_to(root / "cases").parts[0]
        found.setdefault(name, {"entries": []})["entries"].append(entry)
    return found


def test_every_code_of_the_document_has_a_case():
    assert {code_of(case) for case in CASES} | ELSEWHERE == set(DOCUMENTED.split())


@pytest.mark.parametrize("case", CASES)
def test_a_code_comes_with_its_place_and_its_advice(told, case):
    _, location, advice = CASES[case]
    entries = told[folder_of(case)]["entries"]
    remarks = [remark for entry in entries for remark in (*entry["rejections"], *entry["warnings"])]
    found = [remark for remark in remarks if remark["reason"] == code_of(case)]
    assert found, (entries, remarks)
    assert location in {remark["location"] for remark in found}
    assert any(advice in remark["message"] for remark in found if remark["location"] == location), found
    for entry in entries:
        if entry["status"] == "read":
            assert entry["n_read"] == entry["n_kept"] + entry["n_rejected"] + entry["n_duplicate"]
        if entry["status"] == "refused":
            assert (entry["n_kept"], entry["n_read"]) == (0, entry["n_rejected"])


def test_each_refused_file_is_one_line_and_the_call_ends_with_one(told):
    n_refused = sum(entry["status"] == "refused" for name, case in told.items() if name for entry in case["entries"])
    assert told[""]["code"] == 1
    assert told[""]["err"].count("\n") == n_refused
    assert "Traceback" not in told[""]["err"]
