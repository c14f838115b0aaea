"""What the fuzzer starts from: for each reader a few small files, most of them those of the tests of the formats.

A target is one file whose bytes are changed, with the files beside it that stay as they are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.formats import (
    test_every_eval_ever,
    test_inspect,
    test_lm_eval,
    test_mutated_logs,
    test_mutations,
    test_promptfoo,
    test_swebench,
)


@dataclass(frozen=True)
class Target:
    """reader : name in READERS, or `declaration` for the files people write beside them.

    file : path of the changed file below the folder; unit : path of what is read, if that is a folder around it.
    """

    reader: str
    file: str
    seeds: tuple[bytes, ...]
    beside: Mapping[str, bytes] = field(default_factory=dict)
    unit: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _lines(*records: object) -> bytes:
    return b"\n".join(map(_json, records)) + b"\n"


_LONG = [
    {"item_id": "q1", "model": "elm", "score": 1, "generation": 0, "cost_usd": 0.01, "status": "ok"},
    {"item_id": "q1", "model": "elm", "score": 0.5, "generation": 1, "prompt": "Q?", "metric": "acc"},
    {"item_id": "q2", "model": "oak", "score": None, "input_tokens": 5, "output_tokens": 7, "status": "error"},
]
_LONG_CSV = (
    b"item_id,model,score,generation,prompt,status,cost_usd,metric,created_at\n"
    b'q1,elm,1,0,"two\nlines",ok,0.1,acc,2026-01-01\nq2,elm,n/a,0,,error,,acc,\nq2,elm,true,1,x,unscored,1e-3,len,\n',
    b"sep=;\nitem_id;model;score;benchmark;benchmark_version\n0007;a;0.5;arc;2\nNA;b;1;;\n",
    b"\xff\xfe" + "item_id,model,score\nq1,elm,1\n".encode("utf-16-le"),
)
_WIDE = (
    b"item_id,prompt,elm,oak/7b\nq1,Q?,1,0\nq2,R?,yes,50%\nq3,,-,nan\n",
    b"sep=;\nID;elm;average\nq1;0,5;1\nq2;1;0,25\n",
    b"sample_id,prompt,m1|model_response,m1|total_cost,m1,oracle_model_to_route_to\nx,\"['Q?']\",a,0.1,1.0,m1\n",
)
_ITEMS = b"item_id,prompt,category\ng1,Q?,a\ng2,R?,b\nq1,S?,b\nq2,S?,b\n"
_RESULTS = b"item_id,model,score,generation\ng1,elm,1,0\ng1,elm,0,1\ng2,elm,0.5,0\ng3,elm,1,0\n"
_PAIRS = b"item_id,model_a,model_b,winner,worker,position\ng1,elm,oak,a,w,0\ng1,elm,oak,b,w,1\ng2,elm,oak,tie,v,\n"
_LM_NEW = [test_lm_eval.sample(n, filter_=name, exact_match=float(n == 0)) for n in (0, 1)
           for name in ("strict", "flexible")]  # fmt: skip
_LM_RESULTS = f"results_{test_lm_eval.TIME}.json"
_LM_SAMPLES = f"samples_sums_{test_lm_eval.TIME}.jsonl"
_REPORT = test_swebench.report(completed_ids=["a"], resolved_ids=["a"], unresolved_ids=["b"], error_ids=["c"])
_MAPPING = (
    b'format: jsonl\nfiles: "*.jsonl"\nitem_id: task.id\nprompt: task.text\nmodel: runs.0.model\n'
    b"score: {from: runs.0.score, map: {right: 1, wrong: 0}}\nwhere: {kind: [a, b]}\nscore_range: [-1, 1]\n",
    b"item_id: a\nmodel: {value: m}\nscore: s\njoin: {file: b.jsonl, on: [x, y]}\ngeneration: {rank_by: t}\n",
    b"item_id: a\nmodel_a: b\nmodel_b: c\nwinner: {from: w, map: {1: a, 2: b, 3: tie}}\n",
)
_BENCHMARK = (
    b"name: arc\nversion: '2'\nscore_range: [0, 100]\nhigher_is_better: false\nerror_policy: wrong\n"
    b"models: {elm: [elm-7b, Elm]}\nderive: {seed: 3}\nfrontier: {}\n",
    b"metric: acc\nmodel: elm\non_conflict: newest\nzero_cost: real\nprices: prices.yml\ninstances: all.txt\n",
)
_PRICES = (
    b"elm: {input: 0.25, output: 1.25, cache_read: 0.03}\noak:\n"
    b"  - {input: 1, output: 2, to: 2026-01-01}\n  - {input: 2, output: 3, from: 2026-01-01}\n",
    _json({"elm": {"input_token_price_per_million": 0.25, "output_token_price_per_million": 1.25}}),
)


def _of_tests(name: str) -> bytes:
    _, is_lines, document = test_mutations.DOCUMENTS[name]
    return _lines(*document) if is_lines else _json(document)  # type: ignore[misc]


def _helm(name: str) -> Target:
    run = {f"run/{file}": _json(document) for file, document in test_mutated_logs.RUN.items()}
    return Target("helm", f"run/{name}", (run.pop(f"run/{name}"),), beside=run, unit="run")


TARGETS: dict[str, Target] = {
    "canonical_csv": Target("canonical", "c/results.csv", (_RESULTS,), {"c/items.csv": _ITEMS}, unit="c"),
    "canonical_pairs": Target("canonical", "c/pairs.csv", (_PAIRS,), {"c/items.csv": _ITEMS}, unit="c"),
    "canonical_items": Target("canonical", "c/items.csv", (_ITEMS,), {"c/results.csv": _RESULTS}, unit="c"),
    "canonical_jsonl": Target("canonical", "c/results.jsonl", (_lines(*_LONG),), {"c/items.csv": _ITEMS}, unit="c"),
    "long_csv": Target("long", "a.csv", _LONG_CSV),
    "long_jsonl": Target("long", "a.jsonl", (_lines(*_LONG),)),
    "wide_csv": Target("wide", "a.csv", _WIDE),
    "lm_eval": Target("lm_eval", _LM_SAMPLES, (_lines(*_LM_NEW),), {_LM_RESULTS: _json(test_lm_eval.results())}),
    "lm_eval_results": Target(
        "lm_eval", _LM_RESULTS, (_json(test_lm_eval.results()),), {_LM_SAMPLES: _lines(*_LM_NEW)}, unit=_LM_SAMPLES
    ),
    "inspect": Target(
        "inspect",
        "log.json",
        (_json(test_mutated_logs.LOG), _json(test_inspect.header() | {"samples": [test_inspect.sample("a")]})),
    ),
    "helm_stats": _helm("per_instance_stats.json"),
    "helm_state": _helm("scenario_state.json"),
    "every_eval_ever": Target(
        "every_eval_ever", "a_samples.jsonl", (_lines(test_mutated_logs.LINE, test_every_eval_ever.line("2")),)
    ),
    "promptfoo": Target("promptfoo", "out.json", (_json(test_mutated_logs.RESULTS), _json(test_promptfoo.result("T")))),
    "mapping": Target(
        "mapping",
        "a.jsonl",
        (_lines(test_mutations.NESTED, {"task": {"id": 2, "text": "R"}, "runs": [{"model": "b", "score": "0.5"}]}),),
        {"mapping.yml": test_mutations.MAPPING.encode()},
    ),
    "mapping_csv": Target(
        "mapping",
        "a.csv",
        (b"i,a,b,w\n1,elm,oak,1\n2,elm,oak,3\n",),
        {"mapping.yml": b"item_id: i\nmodel_a: a\nmodel_b: b\nwinner: {from: w, map: {1: a, 2: b, 3: tie}}\n"},
    ),
    "arena": Target(
        "arena",
        "a.csv",
        (
            b"question_id,model_a,model_b,winner,judge\n1,elm,oak,model_a,j\n1,elm,oak,tie (bothbad),j\n2,e,o,,k\n",
            b"id,prompt,model_a,model_b,winner_model_a,winner_model_b,winner_tie\n1,Q,elm,oak,1,0,0\n2,R,elm,oak,0,0,1\n",
        ),
    ),
    "arena_jsonl": Target("arena", "a.jsonl", (_of_tests("arena"),)),
    "mt_bench": Target("mt_bench", "a.jsonl", (_of_tests("mt_bench pairs"), _of_tests("mt_bench grades"))),
    "alpaca_eval": Target("alpaca_eval", "annotations.json", (_of_tests("alpaca_eval"),)),
    "arena_hard": Target("arena_hard", "elm.jsonl", (_of_tests("arena_hard"),)),
    "swebench": Target(
        "swebench",
        "elm.run.json",
        (_json(_REPORT), _of_tests("swebench details"), _json(test_swebench.RESULTS)),
        {"all.txt": b"a-1\na-2\na-3\na-4\n"},
        options={"instances": "all.txt"},
    ),
    "livecodebench": Target("livecodebench", "a_eval_all.json", (_of_tests("livecodebench"),)),
    "evalplus": Target("evalplus", "elm_eval_results.json", (_of_tests("evalplus"), _of_tests("evalplus old"))),
    "bigcodebench": Target("bigcodebench", "elm_eval_results.json", (_of_tests("bigcodebench"),)),
    "benchmark_yml": Target(
        "declaration", "benchmark.yml", _BENCHMARK, {"prices.yml": _PRICES[0], "all.txt": b"a\nb\n"}
    ),
    "mapping_yml": Target("declaration", "mapping.yml", _MAPPING, {"b.jsonl": b'{"y": 1}\n'}),
    "prices": Target("declaration", "prices.yml", _PRICES),
}
"""Name of the target → what is read. A format that people write in several ways has a target for each."""
