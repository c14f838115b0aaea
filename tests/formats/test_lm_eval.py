"""Sample files of lm-evaluation-harness, new and old."""

import json

import pytest

from capeval_pipeline.formats import lm_eval
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats.reading import read_whole, write

TIME = "2026-02-03T08-00-00.000001"


def sample(number: int, *, filter_: str = "none", **metrics) -> dict:
    return {
        "doc_id": number,
        "doc": {"question": f"What is {number}?"},
        "target": "x",
        "arguments": {"gen_args_0": {"arg_0": f"Q: What is {number}?"}},
        "resps": [["r"]],
        "filtered_resps": ["r"],
        "filter": filter_,
        "metrics": list(metrics),
        **metrics,
    }


def results(**changes) -> dict:
    return {
        "results": {"sums": {"alias": "sums", "exact_match,strict": 0.5, "exact_match_stderr,strict": "N/A",
                             "exact_match,flexible": 1.0}},
        "configs": {"sums": {"task": "sums", "repeats": 1}},
        "versions": {"sums": 2.0},
        "n-samples": {"sums": {"original": 9, "effective": 2}},
        "higher_is_better": {"sums": {"exact_match": True}},
        "config": {"model": "hf", "model_args": "pretrained=lab/m,load_in_4bit=True,dtype=float16"},
        "lm_eval_version": "0.4.9",
    } | changes  # fmt: skip


def lay(folder, samples: list[dict], results_: dict | None):
    path = write(folder / f"samples_sums_{TIME}.jsonl", "".join(json.dumps(line) + "\n" for line in samples))
    if results_ is not None:
        write(folder / f"results_{TIME}.json", json.dumps(results_))
    return path


def test_filters_are_metrics_and_no_items(tmp_path):
    lines = [sample(n, filter_=name, exact_match=float(name == "flexible" or n == 0)) for n in (0, 1)
             for name in ("strict", "flexible")]  # fmt: skip
    found = read_whole(lm_eval, lay(tmp_path, lines, results()))
    assert found.n_read == 4
    assert len(found.items) == 2
    assert [(row["metric"], row["score"]) for row in found.generations] == [
        ("exact_match,strict", 1.0),
        ("exact_match,strict", 0.0),
    ]
    assert len(found.metric_values) == 4
    assert (found.facts.benchmark, found.facts.version, found.facts.claimed_items) == ("sums", "2.0", 2)
    assert found.facts.model_settings["lab/m"]["load_in_4bit"] == "True"
    chosen = read_whole(lm_eval, tmp_path / f"samples_sums_{TIME}.jsonl", metric="exact_match,flexible")
    assert [row["score"] for row in chosen.generations] == [1.0, 1.0]


def test_the_old_layout_is_one_array_with_bare_metrics(tmp_path):
    old = [{key: value for key, value in sample(n, acc=n).items() if key not in ("filter", "metrics")} for n in (0, 1)]
    for line in old:
        line["arguments"] = [[line["arguments"]["gen_args_0"]["arg_0"], " x"]]
    path = write(tmp_path / "pretrained__lab__m_sums.jsonl", json.dumps(old, indent=2))
    write(
        tmp_path / "results.json",
        json.dumps({"results": {"sums": {"acc": 0.5, "acc_stderr": 0.1}}, "versions": {"sums": 1},
                    "config": {"model": "hf", "model_args": {"pretrained": "lab/m"}}}),
    )  # fmt: skip
    assert lm_eval.matches(path) == 1.0
    found = read_whole(lm_eval, path)
    assert [(row["score"], row["metric"], row["model"]) for row in found.generations] == [
        (0.0, "acc", "lab/m"),
        (1.0, "acc", "lab/m"),
    ]


def test_fewer_documents_and_repeats_under_one_score_are_told(tmp_path):
    changed = results(configs={"sums": {"repeats": 4}})
    found = read_whole(lm_eval, lay(tmp_path, [sample(0, filter_="strict", exact_match=1.0)], changed))
    assert found.reasons("warning") == {"coverage": 1, "repeats_scored_once": 1}


def test_the_topmost_group_is_the_benchmark(tmp_path):
    changed = results(group_subtasks={"all": ["numbers"], "numbers": ["sums", "other"], "sums": []})
    facts = read_whole(lm_eval, lay(tmp_path, [sample(0, filter_="strict", exact_match=1)], changed)).facts
    assert facts.benchmark == "all"


@pytest.mark.parametrize(
    ("results_", "options", "reason"),
    [
        (None, {}, "model_unknown"),
        (results(), {"metric": "bleu"}, "metric_unknown"),
    ],
)
def test_what_the_files_do_not_say_is_refused(tmp_path, results_, options, reason):
    path = lay(tmp_path, [sample(0, filter_="strict", exact_match=1.0)], results_)
    with pytest.raises(FileRefused) as caught:
        read_whole(lm_eval, path, **options)
    assert caught.value.reason == reason


def test_a_published_sample_has_ten_of_five_thousand(shared):
    folder = shared / "data" / "raw_samples" / "lm_eval"
    path = next(folder.glob("samples_*.jsonl"))
    found = read_whole(lm_eval, path)
    assert found.n_read == len(found.generations) == 10
    assert sum(row["score"] for row in found.generations) == 0
    warning = next(row["message"] for row in found.rejections if row["reason"] == "coverage")
    assert "10 documents" in warning
    assert "5000" in warning
