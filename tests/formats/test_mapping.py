"""Mapping files: what they can say, what they refuse, and a published export read by one."""

import json
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capeval_pipeline.formats import mapping, mapping_file
from capeval_pipeline.formats.content_hashes import text_hash
from capeval_pipeline.formats.refusals import FileRefused
from capeval_pipeline.ingestion.reading import Request
from tests.formats.reading import read_whole, write
from tests.ingestion.workspaces import MemoryWorkspace

PLAIN = "item_id: task.id\nmodel: system\nscore: grade\n"


def lines(*records: dict) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def lay(folder, text: str, name: str, content: str | bytes):
    write(folder / "mapping.yml", text)
    return write(folder / name, content)


def refused(path, **options) -> FileRefused:
    with pytest.raises(FileRefused) as caught:
        read_whole(mapping, path, **options)
    return caught.value


def rows(found) -> list[tuple]:
    return [(row["item"], row["model"], row["generation_id"], row["status"], row["score"]) for row in found.generations]


def test_paths_lead_into_nested_records_whichever_way_they_are_written(tmp_path):
    records = [{"task": {"id": 7}, "system": "elm", "grade": 0.5}, {"task": {"id": "q8"}, "system": "elm", "grade": 1}]
    pq.write_table(
        pa.table({"task": [{"id": "7"}, {"id": "q8"}], "system": ["elm"] * 2, "grade": [0.5, 1.0]}),
        tmp_path / "a.parquet",
    )
    write(tmp_path / "a.jsonl", lines(*records))
    write(tmp_path / "a.json", json.dumps(records))
    write(tmp_path / "a.csv", "task.id,system,grade\n7,elm,0.5\nq8,elm,1\n")
    write(tmp_path / "mapping.yml", PLAIN)
    for name in ("a.jsonl", "a.json", "a.csv", "a.parquet"):
        found = read_whole(mapping, tmp_path / name)
        assert rows(found) == [("7", "elm", 0, "ok", 0.5), ("q8", "elm", 0, "ok", 1.0)], name
        assert found.accounted() == {0, 1}


def test_records_may_lie_inside_one_document(tmp_path):
    path = lay(
        tmp_path,
        "records: run.answers\nitem_id: id\nmodel: {value: lab/elm}\n"
        "score: {from: verdict, map: {right: 1, wrong: 0}}\n",
        "a.json",
        json.dumps({"run": {"answers": [{"id": "q1", "verdict": "right"}, {"id": "q2", "verdict": "unsure"}]}}),
    )
    found = read_whole(mapping, path)
    assert rows(found) == [("q1", "lab/elm", 0, "ok", 1.0), ("q2", "lab/elm", 0, "invalid", None)]
    assert (found.locations(), found.reasons()) == (["samples[1]"], {"score_not_numeric": 1})


def test_a_value_map_reads_true_and_false_and_empty_cells(tmp_path):
    path = lay(
        tmp_path,
        "item_id: i\nmodel: m\nscore: s\nstatus: {from: done, map: {true: ok, false: error, ~: unscored}}\n",
        "a.csv",
        "i,m,s,done\nq1,elm,1,True\nq2,elm,0,FALSE\nq3,elm,1,\nq4,elm,1,maybe\n",
    )
    found = read_whole(mapping, path)
    assert [row["status"] for row in found.generations] == ["ok", "error", "unscored", "invalid"]
    assert found.reasons() == {"status_unknown": 1}


def test_what_where_leaves_out_is_no_record(tmp_path):
    text = PLAIN + "where: {kind: [NUMERIC, BOOLEAN], done: true}\n"
    records = [
        {"task": {"id": n}, "system": "elm", "grade": 1, "kind": kind, "done": done}
        for n, (kind, done) in enumerate([("NUMERIC", True), ("TEXT", True), ("BOOLEAN", True), ("BOOLEAN", False)])
    ]
    found = read_whole(mapping, lay(tmp_path, text, "a.jsonl", lines(*records)))
    assert [row["item"] for row in found.generations] == ["0", "2"]
    assert found.n_read == 2


def test_a_filter_that_keeps_nothing_is_a_fault_of_the_mapping(tmp_path):
    path = lay(tmp_path, PLAIN + "where: {system: oak}\n", "a.csv", "task.id,system,grade\n7,elm,0.5\n")
    fault = refused(path)
    assert (fault.reason, fault.location) == ("mapping_invalid", "key where")


def test_generations_follow_the_field_they_are_ranked_by(tmp_path):
    text = "item_id: i\nmodel: m\nscore: s\ngeneration: {rank_by: n}\n"
    records = [{"i": "q", "m": "elm", "s": s, "n": n} for s, n in ((0.3, 10), (0.1, 9), (0.1, 9), (0.0, None))]
    found = read_whole(mapping, lay(tmp_path, text, "a.jsonl", lines(*records)))
    assert [(row["generation_id"], row["score"]) for row in found.generations] == [(1, 0.3), (0, 0.1), (0, 0.1)]
    assert found.reasons() == {"generation_bad": 1}
    assert found.n_read == 4


def test_votes_are_mapped_with_labels_or_names_of_winners(tmp_path):
    text = "item_id: q\nmodel_a: first\nmodel_b: second\njudge: {value: jay}\n"
    text += "winner: {from: best, map: {1: a, 2: b}}\n"
    path = lay(tmp_path, text, "a.csv", "q,first,second,best\n1,elm,oak,1\n2,elm,oak,2\n3,elm,oak,9\n4,elm,elm,1\n")
    found = read_whole(mapping, path)
    assert [(row["outcome"], row["judge"]) for row in found.judgments] == [(1.0, "jay"), (0.0, "jay")]
    assert found.reasons() == {"unknown_label": 1, "self_comparison": 1}
    by_name = lay(
        tmp_path / "names", "item_id: q\nmodel_a: a\nmodel_b: b\nwinner: w\n", "a.csv",
        "q,a,b,w\n1,elm,oak,oak\n2,elm,oak,tie\n",
    )  # fmt: skip
    assert [row["outcome"] for row in read_whole(mapping, by_name).judgments] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("text", "where", "word"),
    [
        ("item_id: i\nmodel: m\nscore: s\nscores: s\n", "key scores", "Did you mean score?"),
        ("item_id: i\nmodel: m\n", "file", "score"),
        ("item_id: i\nmodel: m\nscore: {from: s, eval: 1 + 1}\n", "key score", "{value: constant}"),
        ("item_id: i\nmodel: m\nscore: s\nformat: xlsx\n", "key format", "csv"),
        ("item_id: i\nmodel: m\nscore: s\nscore_range: [1, 0]\n", "key score_range", "low < high"),
        ("item_id: i\nmodel: m\nscore: join.s\n", "key score", "nothing is joined"),
        ("item_id: i\nmodel: m\nscore: s\njoin: {file: /etc/passwd, on: i}\n", "key join.file", "beside"),
        ("item_id: i\nmodel: m\nscore: s\nmodel_a: m\nwinner: w\n", "file", "model_b"),
        ("item_id: [i\n", "file", "YAML"),
        ("item_id: !!python/object/apply:os.system [ls]\nmodel: m\nscore: s\n", "file", "YAML"),
        ("item_id: i\nitem_id: m\nmodel: m\nscore: s\n", "file", "twice"),
    ],
)
def test_a_faulty_mapping_is_refused_by_its_key(tmp_path, text, where, word):
    path = write(tmp_path / "mapping.yml", text)
    with pytest.raises(FileRefused) as caught:
        mapping_file.load_mapping(path)
    assert (caught.value.reason, caught.value.location) == ("mapping_invalid", where)
    assert word in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_an_unknown_column_lists_those_there_are(tmp_path, name):
    table = pa.table({"question_nr": ["1"], "system": ["mint"], "grade": [1.0]})
    contents = {
        "a.csv": "question_nr,system,grade\n1,mint,1\n",
        "a.jsonl": lines(*table.to_pylist()),
        "a.json": json.dumps(table.to_pylist()),
    }
    write(tmp_path / "mapping.yml", "item_id: question_no\nmodel: system\nscore: grade\n")
    if name in contents:
        write(tmp_path / name, contents[name])
    else:
        pq.write_table(table, tmp_path / name)
    fault = refused(tmp_path / name)
    assert (fault.reason, fault.location) == ("mapping_invalid", "key item_id")
    assert "question_no" in str(fault) and "Did you mean question_nr?" in str(fault)


def test_a_key_that_some_records_lack_is_no_unknown_column(tmp_path):
    path = lay(
        tmp_path, PLAIN + "latency_s: time\n", "a.jsonl",
        lines({"task": {"id": 1}, "system": "elm", "grade": 1}, {"task": None, "system": "elm", "grade": 1, "time": 2}),
    )  # fmt: skip
    found = read_whole(mapping, path)
    assert [row["latency_s"] for row in found.generations] == [None]
    assert found.reasons() == {"key_missing": 1}


def test_a_join_needs_one_record_a_key(tmp_path):
    text = "item_id: join.i\nmodel: m\nscore: s\njoin: {file: t.csv, on: [t, id]}\n"
    path = lay(tmp_path, text, "a.csv", "t,m,s\n1,elm,1\n2,elm,0\n")
    write(tmp_path / "t.csv", "id,i\n1,q1\n1,q1\n")
    found = read_whole(mapping, path)
    assert rows(found) == [("q1", "elm", 0, "ok", 1.0)]
    assert found.reasons() == {"join_missing": 1}
    write(tmp_path / "t.csv", "id,i\n1,q1\n1,q2\n")
    assert "twice" in str(refused(path))
    write(tmp_path / "t.csv", "id,item\n1,q1\n")
    assert "among those of t.csv: id, item" in str(refused(path))
    (tmp_path / "t.csv").unlink()
    assert refused(path).reason == "mapping_invalid"


def test_a_pattern_leaves_known_formats_alone_and_a_name_does_not(tmp_path):
    path = lay(tmp_path, PLAIN + "files: '*.jsonl'\n", "a.jsonl", "{}\n")
    assert mapping.matches(path) == 0.65
    assert mapping.matches(write(tmp_path / "a.csv", "a\n")) == 0.0
    write(tmp_path / "mapping.yml", PLAIN + "files: [a.jsonl, b.csv]\n")
    assert mapping.matches(path) == 1.0


def test_hostile_mappings_refuse_their_file_and_open_nothing_outside(tmp_path):
    outside = write(tmp_path / "outside/mapping.yml", PLAIN)
    folder = tmp_path / "inbox/x"
    data = write(folder / "a.jsonl", lines({"task": {"id": 1}, "system": "elm", "grade": 1}))
    (folder / "mapping.yml").symlink_to(outside)
    assert mapping_file.mapping_beside(data) is None
    (folder / "mapping.yml").unlink()
    hostile = [
        "item_id: &a [*a]\nmodel: m\nscore: s\n", f"item_id: {'9' * 5000}\nmodel: m\nscore: s\n", "[" * 3000, "\0",
        "- a\n", "item_id: i\nmodel: m\nscore: {value: " + "9" * 5000 + "}\n", "<<: {item_id: i}\nmodel: m\nscore: s\n",
        "",
    ]  # fmt: skip
    for text in hostile:
        write(folder / "mapping.yml", text)
        reports = MemoryWorkspace(tmp_path).ingest([folder]).reports
        refusals = [report.rejections[0].reason for report in reports if report.status == "refused"]
        assert refusals == ["mapping_invalid"], text[:50]


def test_a_named_mapping_may_lie_elsewhere_and_its_joined_file_is_no_unit(tmp_path):
    text = "files: s.jsonl\nitem_id: join.item\nmodel: join.model\nscore: value\njoin: {file: t.jsonl, on: [t, id]}\n"
    named = write(tmp_path / "maps/traces.yml", text)
    folder = tmp_path / "inbox/traces"
    write(folder / "s.jsonl", lines({"t": "a", "value": 1}))
    write(folder / "t.jsonl", lines({"id": "a", "item": "q1", "model": "elm"}))
    write(folder / "other.csv", "item_id,model,score\nq1,oak,0\n")
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([folder], Request(mapping=named))
    found = {report.path.rpartition("/")[2]: (report.format, report.status) for report in batch.reports}
    assert found["s.jsonl"] == ("mapping", "read")
    assert found["t.jsonl"] == (None, "companion")
    assert found["other.csv"] == ("long", "read")
    assert workspace.ingest([folder], Request(mapping=named)).changes == {}
    write(folder / "t.jsonl", lines({"id": "a", "item": "q2", "model": "elm"}))
    workspace.ingest([folder], Request(mapping=named))
    assert {row["item_id"] for row in workspace.rows("raw.generations")} == {"q1", "q2"}


def test_every_mapping_of_the_documentation_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs/mapping.md").read_text(encoding="utf-8")
    examples = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(examples) == 5
    for text in examples:
        assert {"item_id", "prompt"} & set(mapping_file.load_mapping(write(tmp_path / "mapping.yml", text)).fields)
    table = "question_nr,system,grade,seconds\n1,mint,right,0.8\n2,mint,wrong,1.1\n"
    found = read_whole(mapping, lay(tmp_path / "own", examples[0], "a.csv", table))
    assert [(row["score"], row["latency_s"]) for row in found.generations] == [(1.0, 0.8), (0.0, 1.1)]


ROUTER_ARENA = """\
format: jsonl
files: "*.jsonl"
item_id: global_index
prompt: question
model: llm_selected
score: evaluation_result.score
status: {from: success, map: {true: ok, false: error}}
input_tokens: token_usage.input_tokens
output_tokens: token_usage.output_tokens
cost_usd: evaluation_result.inference_cost
"""


def test_published_router_results_cost_what_their_price_list_says(shared, tmp_path):
    folder = tmp_path / "inbox/routers"
    folder.mkdir(parents=True)
    for file in (shared / "data/raw_samples/routerarena").iterdir():
        shutil.copyfile(file, folder / file.name)
    write(folder / "benchmark.yml", "prices: model_cost.json\n")
    write(folder / "mapping.yml", ROUTER_ARENA)
    workspace = MemoryWorkspace(tmp_path)
    batch = workspace.ingest([folder])
    assert [remark.reason for report in batch.reports for remark in report.rejections] == ["score_out_of_range"]
    write(folder / "mapping.yml", ROUTER_ARENA + "score_range: [-1, 1]\n")
    workspace.ingest([folder])
    rows = workspace.rows("raw.generations")
    assert (len(rows), len({row["item_id"] for row in rows})) == (120, 60)
    assert all(abs(row["cost_recomputed_usd"] - row["cost_reported_usd"]) <= 1e-12 for row in rows)
    figures = {
        model: (
            math.fsum(row["cost_recomputed_usd"] for row in rows if row["model_id"] == model),
            math.fsum(row["score"] for row in rows if row["model_id"] == model) / 60,
        )
        for model in ("claude-3-haiku-20240307", "gemini-2.0-flash-001")
    }
    assert figures["claude-3-haiku-20240307"] == pytest.approx((0.01012225, 0.481571), abs=5e-7)
    assert figures["gemini-2.0-flash-001"] == pytest.approx((0.0034079, 0.664177), abs=5e-7)
    assert figures["claude-3-haiku-20240307"][0] == pytest.approx(0.01012225, abs=1e-12)
    assert figures["gemini-2.0-flash-001"][0] == pytest.approx(0.0034079, abs=1e-12)


def test_without_an_id_an_item_is_known_by_its_text(tmp_path):
    records = [{"q": "One?", "m": "elm", "s": 1}, {"q": "One? ", "m": "oak", "s": 0}, {"q": " ", "m": "elm", "s": 1}]
    path = lay(tmp_path, "prompt: q\nmodel: m\nscore: s\n", "a.jsonl", lines(*records))
    found = read_whole(mapping, path)
    assert [(row["item"], row["content_hash"][:6], row["score"]) for row in found.generations] == [
        (None, text_hash("One?")[:6], 1.0), (None, text_hash("One?")[:6], 0.0),
    ]  # fmt: skip
    assert (found.reasons(), found.locations()) == ({"key_missing": 1}, ["line 3"])
    workspace = MemoryWorkspace(tmp_path / "data")
    workspace.ingest([path])
    assert {row["item_id"] for row in workspace.rows("raw.generations")} == {f"h{text_hash('One?')[:12]}"}


def test_without_an_id_and_without_a_text_there_is_no_item(tmp_path):
    path = lay(tmp_path, "model: m\nscore: s\n", "a.jsonl", lines({"m": "elm", "s": 1}))
    assert "item_id (or prompt), model, score" in str(refused(path))


EACH = "item_id: id\neach: scores\nmodel: each.key\nscore: each.value\n"


def test_each_member_of_an_object_or_a_list_is_a_record_of_its_own(tmp_path):
    records = [{"id": "q1", "scores": {"elm": 1, "oak": 0.5}}, {"id": "q2", "scores": {"elm": "N/A"}},
               {"id": "q3", "scores": {}}, {"id": "q4"}, {"id": "q5", "scores": 7}]  # fmt: skip
    found = read_whole(mapping, lay(tmp_path / "a", EACH, "a.jsonl", lines(*records)))
    assert rows(found) == [("q1", "elm", 0, "ok", 1.0), ("q1", "oak", 0, "ok", 0.5), ("q2", "elm", 0, "unscored", None)]
    assert (found.n_read, found.reasons(), found.locations()) == (6, {"bad_row": 3}, ["line 3", "line 4", "line 5"])
    assert found.accounted() == set(range(6))
    listed = [{"id": "q1", "tries": [{"by": "elm", "ok": True}, {"by": "elm", "ok": False}]}]
    text = "item_id: id\neach: tries\nmodel: each.value.by\nscore: each.value.ok\ngeneration: each.key\n"
    found = read_whole(mapping, lay(tmp_path / "b", text, "a.json", json.dumps(listed)))
    assert rows(found) == [("q1", "elm", 0, "ok", 1.0), ("q1", "elm", 1, "ok", 0.0)]
    pq.write_table(pa.table({"id": ["q1"], "scores": [{"elm": 1.0, "oak": 0.5}]}), tmp_path / "a" / "b.parquet")
    found = read_whole(mapping, tmp_path / "a" / "b.parquet")
    assert rows(found) == [("q1", "elm", 0, "ok", 1.0), ("q1", "oak", 0, "ok", 0.5)]


def test_members_of_one_object_may_be_the_records(tmp_path):
    text = "item_id: each.key\neach: done\nmodel: {value: elm}\nscore: each.value.passed\n"
    document = json.dumps({"run": 1, "done": {"q1": {"passed": True}, "q2": {"passed": False}}})
    found = read_whole(mapping, lay(tmp_path, text, "a.json", document))
    assert rows(found) == [("q1", "elm", 0, "ok", 1.0), ("q2", "elm", 0, "ok", 0.0)]


def test_ranks_tell_the_members_of_one_record_apart(tmp_path):
    text = "item_id: id\neach: tries\nmodel: {value: elm}\nscore: each.value.s\ngeneration: {rank_by: each.value.at}\n"
    record = {"id": "q1", "tries": [{"at": 20, "s": 0}, {"at": 3, "s": 1}]}
    assert rows(read_whole(mapping, lay(tmp_path, text, "a.jsonl", lines(record)))) == [
        ("q1", "elm", 1, "ok", 0.0), ("q1", "elm", 0, "ok", 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (EACH.replace("each: scores\n", ""), "there is no each"),
        (EACH.replace("each: scores", "each: score"), "Did you mean scores?"),
        (EACH.replace("each.value", "each.valeu"), "Did you mean each.value"),
        (EACH.replace("each: scores", "each: [scores]"), "the path of a field"),
    ],
)
def test_a_wrong_each_is_told_with_the_nearest_path(tmp_path, text, told):
    fault = refused(lay(tmp_path, text, "a.jsonl", lines({"id": "q1", "scores": {"elm": 1}})))
    assert fault.reason == "mapping_invalid"
    assert told in str(fault)


def test_votes_may_say_which_answer_was_shown_first(tmp_path):
    text = "item_id: i\nmodel_a: a\nmodel_b: b\nwinner: w\nposition: {from: order, map: {ab: 0, ba: 1}}\n"
    records = [{"i": 1, "a": "elm", "b": "oak", "w": "a", "order": order} for order in ("ab", "ba", None)]
    found = read_whole(mapping, lay(tmp_path, text, "a.jsonl", lines(*records)))
    assert [row["position"] for row in found.judgments] == [0, 1, None]


SKELETONS = {
    "gso/o3.json": "{item_id: …, model: …, score: summary.score}",
    "llmrouter_dc9/dcrouter_test.first40.json": "{prompt: question, each: scores, model: each.key, score: each.value}",
    "pandalm/testset-v1.first50.json": "{item_id: idx, model: …, score: …}",
    "mt_bench_en_ko/gpt4omini_pairwise.first10.jsonl":
        "{item_id: question_id, model_a: model_a, model_b: model_b, winner: winner}",
    "misguided_attention/detailed_evaluations_mm3.first3prompts.json": "{item_id: …, model: …, score: …}",
    "planbench/gpt-4o_chat.first10.json": "{records: instances, item_id: instance_id, model: …, score: llm_correct}",
    "zeroeval_crux/gpt-4o-mini-2024-07-18.first20.json": "{item_id: session_id, model: generator, score: …}",
    "mmlu_pro/items.first30.json": "{item_id: item_id, model: …, score: …}",
    "routerarena/gemini-2.0-flash-001.first60.jsonl":
        "{item_id: global_index, model: llm_selected, score: evaluation_result.score}",
}  # fmt: skip


@pytest.mark.parametrize("name", SKELETONS)
def test_a_file_of_no_known_format_is_refused_with_the_beginning_of_a_mapping(shared, tmp_path, name):
    report = MemoryWorkspace(tmp_path).ingest([shared / "data/raw_samples" / name]).reports[0]
    assert (report.status, report.rejections[0].reason) == ("refused", "unknown_format")
    assert report.rejections[0].message.endswith(f"mapping.yml: {SKELETONS[name]}")


MAPPED = {
    "llmrouter_dc9/dcrouter_test.first40.json":
        ("prompt: question\neach: scores\nmodel: each.key\nscore: each.value\n", 40 * 9, 40),
    "planbench/gpt-4o_chat.first10.json":
        ("records: instances\nitem_id: instance_id\nmodel: {value: gpt-4o}\nscore: llm_correct\n", 10, 10),
    "gso/o3.json":
        ("item_id: each.key\neach: opt_stats\nmodel: {value: o3}\nscore: each.value.gm_speedup_patch_commit\n"
        "score_range: [0, ~]\n", 9, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_such_a_file_is_read_once_its_mapping_is_finished(shared, tmp_path, name):
    text, n_records, n_items = MAPPED[name]
    path = shared / "data/raw_samples" / name
    by = write(tmp_path / "m.yml", text)
    workspace = MemoryWorkspace(tmp_path / "data")
    report = next(r for r in workspace.ingest([path], Request(mapping=by)).reports if r.status != "companion")
    assert (report.status, report.n_read, report.n_kept) == ("read", n_records, n_records)
    assert len(workspace.rows("raw.items")) == n_items


def test_pairwise_verdicts_by_name_are_read_by_a_mapping(shared, tmp_path):
    folder = tmp_path / "inbox/pairs"
    folder.mkdir(parents=True)
    shutil.copyfile(shared / "data/raw_samples/mt_bench_en_ko/gpt4omini_pairwise.first10.jsonl", folder / "p.jsonl")
    text = "item_id: question_id\nmodel_a: model_a\nmodel_b: model_b\njudge: judge_id\n"
    write(folder / "mapping.yml", text + "winner: {from: winner, map: {inconsistent: tie}}\n")
    report = next(r for r in MemoryWorkspace(tmp_path).ingest([folder]).reports if r.format == "mapping")
    assert (report.n_read, report.n_kept) == (10, 10)


@pytest.mark.parametrize("document", [{"run": {}}, {"run": {"answers": {}}}, {"run": {"answers": []}}, 7])
def test_a_document_without_the_list_is_refused(tmp_path, document):
    path = lay(tmp_path, "records: run.answers\nitem_id: i\nmodel: m\nscore: s\n", "a.json", json.dumps(document))
    assert refused(path).reason == "bad_json"
