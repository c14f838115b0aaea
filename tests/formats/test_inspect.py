"""Logs of Inspect, as JSON and as zip, whole and damaged."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval_pipeline.formats import inspect
from capeval_pipeline.formats.protocol import Limits
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write
from tests.formats.zips import DEFLATE, STORED, ZSTD, write_zip
from tests.ingestion.workspaces import MemoryWorkspace


def sample(id_, epoch: int = 1, value="C", **more) -> dict:
    return {"id": id_, "epoch": epoch, "input": f"What is {id_}?", "target": "t",
            "scores": {"match": {"value": value}}, "model_usage": {}} | more  # fmt: skip


def header(**more) -> dict:
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "sums", "task_version": 3, "task_id": "t", "run_id": "r", "model": "lab/m",
                 "model_args": {"revision": "ab12"}, "created": "2026-01-02T03:04:05+00:00",
                 "dataset": {"samples": 2}, "packages": {"inspect_ai": "0.3.210"}},
        "results": {"total_samples": 2, "scores": [{"name": "match", "scorer": "match"}]},
    } | more  # fmt: skip


def log(folder, samples: list, **more):
    return write(folder / "log.json", json.dumps(header(**more) | {"samples": samples}))


def eval_log(folder, samples: list[dict], method: int = ZSTD, **more):
    members = [(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one).encode()) for one in samples]
    return write_zip(folder / "log.eval", [*members, ("header.json", json.dumps(header(**more)).encode())], method)


def refused(path, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read_whole(inspect, path, **options)
    return caught.value


# -- a good log -----------------------------------------------------------------------------------------------------


def test_the_header_names_benchmark_version_model_and_tool(tmp_path):
    facts = read_whole(inspect, log(tmp_path, [sample("a"), sample("b")])).facts
    assert (facts.benchmark, facts.version, facts.tool_version, facts.claimed_items) == ("sums", "3", "0.3.210", 2)
    assert facts.model_settings == {"lab/m": {"revision": "ab12"}}
    assert facts.main_metric == "match"


def test_version_0_of_a_task_is_no_version(tmp_path):
    spec = header()["eval"] | {"task_version": 0}
    assert read_whole(inspect, log(tmp_path, [sample("a")], eval=spec)).facts.version is None


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_a_zip_says_what_the_document_says(tmp_path, method):
    samples = [sample("a", 1, "P"), sample("a", 2, "I"), sample(7, 1, "yes")]
    document, packed = log(tmp_path, samples), eval_log(tmp_path, samples, method)
    assert inspect.matches(document) == inspect.matches(packed) == 1.0
    one, other = read_whole(inspect, document), read_whole(inspect, packed)
    assert one.generations == other.generations
    assert one.metric_values == other.metric_values
    assert one.items == other.items
    assert one.facts == other.facts


def test_names_are_ids_and_numbers_are_not(tmp_path):
    found = read_whole(inspect, log(tmp_path, [sample("a"), sample(7)]))
    assert [row["item"] for row in found.items] == ["a", None]
    assert all(row["content_hash"] for row in found.items)


def test_choices_belong_to_the_question(tmp_path):
    samples = [sample(1, choices=["x", "y"], input="Which?"), sample(2, choices=["x", "z"], input="Which?")]
    found = read_whole(inspect, log(tmp_path, samples))
    assert [row["prompt"] for row in found.items] == ["Which?\nx\ny", "Which?\nx\nz"]
    assert len({row["content_hash"] for row in found.items}) == 2


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ([{"role": "user", "content": "Hello?"}], "Hello?"),
        ([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}],
         "system: Be kind.\nuser: Hello?"),
        ([{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}], "Hello?"),
        ("attachment://0f", "A long text"),
    ],
)  # fmt: skip
def test_a_question_is_text_or_a_chat(tmp_path, given_, text):
    one = sample("a", input=given_, attachments={"0f": "A long text"})
    assert read_whole(inspect, log(tmp_path, [one])).items[0]["prompt"] == text


def test_two_pictures_are_two_questions(tmp_path):
    samples = [
        sample(n, input=[{"role": "user", "content": [{"type": "image", "image": f"data:{n}"}]}]) for n in (1, 2)
    ]
    assert len({row["content_hash"] for row in read_whole(inspect, log(tmp_path, samples)).items}) == 2


@pytest.mark.parametrize(
    ("value", "score"),
    [("C", 1), ("I", 0), ("P", 0.5), ("N", 0), ("yes", 1), ("No", 0), (True, 1), ("0.25", 0.25), (0.75, 0.75)],
)
def test_letters_words_and_numbers_are_scores(tmp_path, value, score):
    row = read_whole(inspect, log(tmp_path, [sample("a", value=value)])).generations[0]
    assert (row["status"], row["score"]) == ("ok", score)
    assert row["outcome"] == (value if isinstance(value, str) else None)


@pytest.mark.parametrize(
    ("value", "status", "reason"),
    [
        (math.nan, "unscored", None),
        (None, "unscored", None),
        ("maybe", "invalid", "score_not_numeric"),
        ([1, 0], "invalid", "score_not_numeric"),
        (math.inf, "invalid", "score_not_finite"),
        (7, "invalid", "score_out_of_range"),
    ],
)
def test_what_is_no_score_never_becomes_0(tmp_path, value, status, reason):
    found = read_whole(inspect, log(tmp_path, [sample("a", value=value), sample("b")]))
    assert (found.generations[0]["status"], found.generations[0]["score"]) == (status, None)
    assert found.metric_values[0]["value"] is None
    assert list(found.reasons()) == ([reason] if reason else [])
    assert found.locations() == (["samples[0]"] if reason else [])


def test_an_error_is_no_wrong_answer(tmp_path):
    broken = sample("a", scores=None, error={"message": "rate limit"})
    found = read_whole(inspect, log(tmp_path, [broken, sample("b")]))
    assert [(row["status"], row["score"], row["metric"]) for row in found.generations] == [
        ("error", None, "match"),
        ("ok", 1.0, "match"),
    ]


def test_every_scorer_is_a_metric_and_the_first_of_the_results_the_main_one(tmp_path):
    one = sample("a", scores={"length": {"value": 0.1}, "match": {"value": "C"}, "parts": {"value": {"x": 1, "y": 0}}})
    found = read_whole(inspect, log(tmp_path, [one]))
    assert {row["metric"]: (row["value"], row["is_main"]) for row in found.metric_values} == {
        "length": (0.1, False), "match": (1.0, True), "parts/x": (1.0, False), "parts/y": (0.0, False),
    }  # fmt: skip
    chosen = read_whole(inspect, tmp_path / "log.json", metric="parts/y")
    assert [(row["metric"], row["score"]) for row in chosen.generations] == [("parts/y", 0.0)]


def test_a_log_of_version_1_has_one_scorer(tmp_path):
    one = {key: value for key, value in sample("a").items() if key != "scores"} | {"score": {"value": "C"}}
    old = {"total_samples": 1, "scorer": {"name": "includes"}, "metrics": {"accuracy": {"value": 1.0}}}
    found = read_whole(inspect, log(tmp_path, [one], version=1, results=old))
    assert [(row["metric"], row["score"]) for row in found.generations] == [("includes", 1.0)]


# -- what was spent ---------------------------------------------------------------------------------------------------


def test_what_other_models_used_is_the_judges_cost(tmp_path):
    usage = {"lab/m": {"input_tokens": 9, "output_tokens": 2, "total_cost": 0.25},
             "lab/judge": {"input_tokens": 90, "total_cost": 0.5}, "lab/other": {"total_cost": 0.125}}  # fmt: skip
    row = read_whole(inspect, log(tmp_path, [sample("a", model_usage=usage)])).generations[0]
    assert (row["cost_reported_usd"], row["judge_cost_usd"]) == (0.25, 0.625)
    usage["lab/other"].pop("total_cost")
    row = read_whole(inspect, log(tmp_path, [sample("a", model_usage=usage)])).generations[0]
    assert row["judge_cost_usd"] is None  # a part of it is unknown, so the sum is


def test_reasoning_beside_the_output_is_told_by_the_total(tmp_path):
    inside = {"input_tokens": 10, "output_tokens": 7, "reasoning_tokens": 5, "total_tokens": 17}
    beside = {"input_tokens": 10, "output_tokens": 7, "reasoning_tokens": 5, "total_tokens": 22}
    samples = [sample("a", model_usage={"lab/m": inside}), sample("b", model_usage={"lab/m": beside})]
    found = read_whole(inspect, log(tmp_path, samples))
    assert [row["output_tokens"] for row in found.generations] == [7, 12]


def test_no_tokens_beside_an_answer_are_unknown(tmp_path):
    usage = {"lab/m": {"input_tokens": 0, "output_tokens": 0}}
    row = read_whole(inspect, log(tmp_path, [sample("a", model_usage=usage, output={"completion": "x"})])).generations[
        0
    ]
    assert (row["input_tokens"], row["output_tokens"]) == (None, None)


def test_time_is_that_of_the_work(tmp_path):
    samples = [sample("a", total_time=9.0, working_time=1.5), sample("b", total_time=9.0)]
    assert [row["latency_s"] for row in read_whole(inspect, log(tmp_path, samples)).generations] == [1.5, 9.0]


# -- twice, in parts, unfinished ------------------------------------------------------------------------------------


def test_of_a_sample_written_twice_the_later_counts(tmp_path):
    twice = [sample("a", value="I"), sample("b"), sample("a", value="C")]
    for path in (log(tmp_path, twice), eval_log(tmp_path, twice)):
        found = read_whole(inspect, path)
        assert found.n_read == 3
        assert {row["item"]: row["score"] for row in found.generations} == {"a": 1.0, "b": 1.0}
        assert found.reasons("duplicate") == {"duplicate": 1}
        assert found.reasons("warning") == {"rewritten_sample": 1}
        assert found.accounted() == {0, 1, 2}


def test_samples_in_parts_and_whole_ones_stand_side_by_side(tmp_path):
    members = [
        ("header.json", json.dumps(header()).encode()),
        ("samples/a_epoch_1.json", json.dumps(sample("a")).encode()),
        ("samples/b_epoch_1/sample.json", json.dumps(sample("b", value="I", input="attachment://0f")).encode()),
        ("samples/b_epoch_1/attachments.json", json.dumps({"0f": "A long text"}).encode()),
        ("samples/b_epoch_1/messages/0.json", b"[]"),
    ]
    found = read_whole(inspect, write_zip(tmp_path / "log.eval", members))
    assert {row["item"]: row["score"] for row in found.generations} == {"a": 1.0, "b": 0.0}
    assert found.items[1]["prompt"] == "A long text"


def test_a_run_without_header_is_read_from_its_journal(tmp_path):
    journal = {key: value for key, value in header().items() if key in ("version", "eval")}
    members = [
        ("_journal/start.json", json.dumps(journal).encode()),
        ("samples/a_epoch_1.json", json.dumps(sample("a")).encode()),
    ]
    path = write_zip(tmp_path / "log.eval", members)
    assert inspect.matches(path) == 1.0
    found = read_whole(inspect, path)
    assert [row["metric"] for row in found.generations] == ["match"]
    assert found.reasons("warning") == {"unfinished": 1, "coverage": 1}


@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.sampled_from(["C", "I", "P", None, "what"])), max_size=9
    )
)
def test_every_sample_is_kept_refused_or_repeated(tmp_path_factory, values):
    samples = [sample(id_, epoch, value) for id_, epoch, value in values] + [sample("z")]
    found = read_whole(inspect, log(tmp_path_factory.mktemp("log"), samples))
    assert found.n_read == len(samples)
    assert found.accounted() == set(range(len(samples)))
    last = {(id_, epoch): value for id_, epoch, value in values}
    assert len(found.generations) == len(last) + 1
    assert found.reasons()["score_not_numeric"] == list(last.values()).count("what")
    assert all((row["score"] is None) != (row["status"] == "ok") for row in found.generations)


# -- broken logs ------------------------------------------------------------------------------------------------------


def test_single_samples_are_refused_alone(tmp_path):
    samples = [sample("a"), sample(None), sample("c", epoch=0), 7, sample("", input=""), sample(4, input="")]
    found = read_whole(inspect, log(tmp_path, samples))
    assert found.reasons() == {"key_missing": 3, "generation_bad": 1, "bad_row": 1}
    assert len(found.generations) == 1


def test_a_broken_member_is_refused_alone(tmp_path):
    members = [
        ("header.json", json.dumps(header()).encode()),
        ("samples/a_epoch_1.json", json.dumps(sample("a")).encode()),
        ("samples/b_epoch_1.json", b'{"id": "b"'),
        ("samples/c_epoch_1.json", b"[" * 5000),
        ("samples/d_epoch_1.json", b'{"id": "\xff"}'),
    ]
    found = read_whole(inspect, write_zip(tmp_path / "log.eval", members))
    assert found.reasons() == {"bad_json": 1, "nesting_too_deep": 1, "bad_encoding": 1}
    assert found.locations()[0] == "member samples/b_epoch_1.json"


@pytest.mark.parametrize(
    ("samples", "more", "reason"),
    [
        ([sample("a")], {"version": 3}, "version_too_new"),
        ([], {}, "aggregate_only"),
        ([], {"results": None}, "header_only"),
        ([], {"version": None}, "header_only"),
        ([sample("a", scores={}), sample("b", scores=None)], {}, "no_scores"),
        ([sample("a")], {"eval": {"task": "sums", "task_id": "t"}}, "model_unknown"),
        ([sample("a", scores={"match": {"value": {"x": 1}}})], {}, "metric_needed"),
    ],
)
def test_what_a_log_does_not_say_is_refused(tmp_path, samples, more, reason):
    assert refused(log(tmp_path, samples, **more)).reason == reason


def test_an_unknown_metric_is_refused_with_those_there_are(tmp_path):
    fault = refused(log(tmp_path, [sample("a"), sample("b")]), metric="bleu")
    assert (fault.reason, fault.n_read) == ("metric_unknown", 2)
    assert "one of match" in str(fault)


def test_a_cut_zip_is_refused_as_such(tmp_path):
    path = eval_log(tmp_path, [sample("a")])
    path.write_bytes(path.read_bytes()[:-40])
    assert inspect.matches(path) == 0.8
    assert refused(path).reason == "truncated"


@pytest.mark.parametrize("method", [DEFLATE, ZSTD])
def test_a_damaged_member_refuses_the_archive(tmp_path, method):
    path = eval_log(tmp_path, [sample("a", note="x" * 200)], method)
    content = bytearray(path.read_bytes())
    content[80:90] = bytes(10)
    path.write_bytes(content)
    assert refused(path).reason == "archive_damaged"


@pytest.mark.parametrize("name", ["/etc/x.json", "samples/../../x.json", "..\\x.json", "C:\\x.json"])
def test_names_that_lead_out_of_the_archive_are_refused(tmp_path, name):
    path = write_zip(tmp_path / "log.eval", [("header.json", json.dumps(header()).encode()), (name, b"{}")])
    assert refused(path).reason == "path_outside"


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(inflated_bytes=5_000), "inflated_bytes"),
        (Limits(archive_bytes=5_000), "archive_bytes"),
        (Limits(archive_members=2), "archive_members"),
        (Limits(ratio_free_bytes=5_000, inflation_ratio=3), "inflation_ratio"),
    ],
)
@pytest.mark.parametrize("method", [DEFLATE, ZSTD])
def test_limits_count_what_comes_out_and_not_what_is_claimed(tmp_path, limits, name, method):
    members = [("header.json", json.dumps(header()).encode())]
    members += [(f"samples/{n}_epoch_1.json", json.dumps(sample(n, note="x" * 20_000)).encode()) for n in "ab"]
    claimed = None if method == DEFLATE else 10  # the standard library stops at the claimed size by itself
    fault = refused(write_zip(tmp_path / "log.eval", members, method, claimed=claimed), limits=limits)
    assert fault.reason == "archive_limit"
    assert f"`limits.{name}`" in str(fault)


def test_an_unknown_method_and_a_password_are_named(tmp_path):
    assert refused(eval_log(tmp_path, [sample("a")], 98)).reason == "codec_missing"


# -- published logs ---------------------------------------------------------------------------------------------------


def test_two_published_logs_share_their_items(shared, tmp_path):
    folder = shared / "data" / "raw_samples" / "inspect_json"
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest(sorted(folder.glob("data_arc_*.json")))
    assert [(report.n_kept, report.n_rejected) for report in batch.reports] == [(3, 0), (5, 0)]
    rows = workspace.rows("raw.generations")
    scores = {model: [row["score"] for row in rows if row["model_id"] == model] for model in {
        row["model_id"] for row in rows
    }}  # fmt: skip
    assert {model: (len(values), math.fsum(values) / len(values)) for model, values in scores.items()} == {
        "ollama/qwen2.5:0.5b": (3, pytest.approx(1 / 3)),
        "anthropic/claude-sonnet-4-0": (5, 1.0),
    }
    assert len({row["item_id"] for row in rows}) == 5  # so three are shared
    for report, n in zip(batch.reports, (3, 5), strict=True):
        told = next(remark.message for remark in report.warnings if remark.reason == "coverage")
        assert f"{n} samples" in told and "2376" in told


def test_a_published_log_of_two_epochs(shared):
    path = shared / "data" / "raw_samples" / "inspect_eval" / "log_streaming_2items_2epochs.eval"
    found = read_whole(inspect, path)
    assert len(found.items) == 2
    assert sorted(row["generation_id"] for row in found.generations) == [0, 0, 1, 1]
    assert sum(row["score"] for row in found.generations) / 4 == 0.75


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_cancelled_log_repeats_the_whole_one(shared, tmp_path, is_reversed):
    folder = shared / "data" / "raw_samples"
    whole = folder / "inspect_eval" / "2025-02-11T15-18-04-05-00_popularity.eval"
    cancelled = folder / "inspect_json" / "2025-05-12T20-28-13-04-00_popularity.json"
    alone = [row["score"] for row in read_whole(inspect, cancelled).generations]
    assert (len(alone), sum(alone)) == (3, 2)
    workspace = MemoryWorkspace(tmp_path)
    for path in sorted([whole, cancelled], reverse=is_reversed):
        workspace.ingest([path], benchmark("popularity"))
    rows = workspace.rows("raw.generations")
    assert (len(rows), sum(row["score"] for row in rows)) == (10, 8)
    ledger = {row["path"]: row for row in workspace.rows("raw.files")}
    counts = {path.rpartition("/")[2]: (row["n_kept"], row["n_duplicate"]) for path, row in ledger.items()}
    assert counts == {whole.name: (10, 0), cancelled.name: (0, 3)}


def benchmark(name: str):
    from capeval_pipeline.ingestion.reading import Request

    return Request(benchmark=name)
