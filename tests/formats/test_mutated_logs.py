"""Logs of other tools with any value put in any place: read or refused, and every record accounted for."""

import json
from collections.abc import Iterator

import pytest

from capeval_pipeline.formats import READERS
from capeval_pipeline.formats.refusals import FileRefused
from tests.formats import test_every_eval_ever, test_helm, test_inspect, test_promptfoo
from tests.formats.reading import read_whole, write
from tests.formats.test_mutations import VALUES, places, replaced
from tests.formats.zips import write_zip

USAGE = {"lab/m": {"input_tokens": 5, "output_tokens": 5, "reasoning_tokens": 1, "total_tokens": 10, "total_cost": 0.1},
         "lab/judge": {"total_cost": 0.1}}  # fmt: skip
CHAT = [{"role": "user", "content": [{"type": "text", "text": "Q"}, {"type": "image", "image": "data:1"}]}]
SAMPLES = [
    test_inspect.sample("a", model_usage=USAGE, output={"choices": [{"message": {"content": "x"}}]}, total_time=1.0),
    test_inspect.sample(7, input=CHAT, choices=["x"], attachments={"0f": "x"}, error={"message": "x"}),
]
LINE = test_every_eval_ever.line(
    "1", token_usage={"input_tokens": 5}, performance={"latency_ms": 5}, output={"raw": "x"},
    input={"raw": [{"role": "user", "content": "Q"}], "choices": ["x"]},
)  # fmt: skip
STATS = [test_helm.instance("id1", exact_match=1, num_prompt_tokens=5), test_helm.instance("id1", 0, "typos", f1=1)]
REQUESTS = [test_helm.request("id1"), test_helm.request("id1", 0, "typos")]
SPEC = {"name": "riddle:x=1,model=m", "scenario_spec": {"class_name": "a.B"},
        "metric_specs": [{"args": {"names": ["exact_match"]}}],
        "adapter_spec": {"model": "lab/m", "method": "multiple_choice_joint"}}  # fmt: skip
RESULTS = {"evalId": "e", "metadata": {"promptfooVersion": "1"},
           "results": {"version": 3, "timestamp": "2026-01-02", "prompts": [], "stats": {},
                       "results": [test_promptfoo.result("T")]}}  # fmt: skip


def lay_inspect(folder, log):
    return write(folder / "log.json", json.dumps(log))


def lay_eval(folder, log):
    samples = log["samples"] if isinstance(log["samples"], list) else []
    members = [("header.json", json.dumps({key: log[key] for key in log if key != "samples"}).encode())]
    members += [(f"samples/{n}_epoch_1.json", json.dumps(one).encode()) for n, one in enumerate(samples)]
    return write_zip(folder / "log.eval", members)


def lay_helm(folder, run):
    for name, document in run.items():
        write(folder / "run" / name, json.dumps(document))
    return folder / "run"


def lay_lines(folder, lines):
    return write(folder / "a_samples.jsonl", "\n".join(map(json.dumps, lines)))


def lay_results(folder, results):
    return write(folder / "out.json", json.dumps(results))


LOG = test_inspect.header() | {"samples": SAMPLES}
RUN = {"run_spec.json": SPEC, "scenario_state.json": {"adapter_spec": {"model": "m"}, "request_states": REQUESTS},
       "per_instance_stats.json": STATS}  # fmt: skip
LOGS = {
    "inspect": ("inspect", lay_inspect, LOG),
    "inspect, zipped": ("inspect", lay_eval, LOG),
    "helm": ("helm", lay_helm, RUN),
    "every_eval_ever": ("every_eval_ever", lay_lines, [LINE, LINE]),
    "promptfoo": ("promptfoo", lay_results, RESULTS),
}


def mutants(document: object) -> Iterator[object]:
    """The document with one value in one place, for every place; values take turns, as all pairs would take minutes."""
    for number, at in enumerate(places(document)):
        for value in VALUES[number % 3 :: 3]:
            yield replaced(document, at, value)


@pytest.mark.parametrize("name", LOGS)
def test_any_value_in_any_place_is_read_or_refused(tmp_path, name):
    reader, lay, document = LOGS[name]
    for mutant in mutants(document):
        path = lay(tmp_path, mutant)
        for metric in (None, "score"):
            try:
                found = read_whole(READERS[reader], path, metric=metric)
            except FileRefused as fault:
                assert len(str(fault)) <= 300 and "\n" not in str(fault)
                continue
            assert found.accounted() == set(range(found.n_read))
            assert all((row["score"] is None) == (row["status"] != "ok") for row in found.generations)
