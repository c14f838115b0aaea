"""The real benchmarks: counts of results, pairs, items and models equal those their SOURCE.md gives."""

import re

import pytest

from tests.ingestion.workspaces import MemoryWorkspace

SETS = [
    "alpaca_eval1", "alpaca_eval2", "gso", "humaneval_agents", "lcb_codegen_2402", "lcb_repair", "lcb_testgen",
    "llmfao", "llmrouter_dc9", "metabench_gsm8k", "metabench_mmlu", "metabench_truthfulqa",
    "metabench_winogrande", "misguided_attention", "mmlu_pro", "mt_bench_en_ko", "pandalm", "planbench",
    "routellm_2models", "routerbench_part", "routerdc7_g10", "routerdc7_mc", "sysrs_arc_challenge", "sysrs_bbh",
    "sysrs_commonsense", "sysrs_gsm", "sysrs_ifeval", "sysrs_math", "sysrs_med_qa", "sysrs_mmlu",
    "sysrs_mmlu_20", "sysrs_narrative_qa", "sysrs_natural_qa", "sysrs_wmt_14", "terminal_bench_011",
    "zeroeval_crux", "zeroeval_gsm",
]  # fmt: skip
QUICK = {"alpaca_eval2", "gso", "humaneval_agents", "llmfao", "misguided_attention", "mt_bench_en_ko", "pandalm",
         "terminal_bench_011"}  # fmt: skip
PAIRS_ONLY = {"llmfao": 8931, "mt_bench_en_ko": 14363, "pandalm": 999}
REFUSED = {"alpaca_eval2": 805}
"""The reference model of alpaca_eval2 is compared with itself on each of its 805 items."""


def stated(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETS])
def test_a_published_set_has_the_counts_its_source_states(shared, tmp_path, name):
    folder = shared / "data" / name
    source = (folder / "SOURCE.md").read_text(encoding="utf-8")
    workspace = MemoryWorkspace(tmp_path)
    report = workspace.ingest([folder]).reports[0]
    raw = workspace.raw[name]
    n_results = stated(source, r"results rows (\d+)") or 0
    n_pairs = stated(source, r"\npairs (\d+)") or PAIRS_ONLY.get(name, 0)
    assert raw["raw.generations"].num_rows == n_results
    assert raw["raw.judgments"].num_rows == n_pairs - REFUSED.get(name, 0)
    assert report.n_rejected == REFUSED.get(name, 0)
    assert report.n_duplicate == 0
    assert report.n_read == n_results + n_pairs
    n_items = stated(source, r"items table (\d+)")
    if n_items is not None:
        assert raw["raw.items"].num_rows == n_items
    n_models = stated(source, r"\npairs \d+; models (\d+)") or stated(source, r"results rows \d+; models (\d+)")
    if n_models is not None:
        assert raw["raw.models"].num_rows == n_models
    statuses = set(raw["raw.generations"].column("status").to_pylist()) if n_results < 500_000 else {"ok"}
    assert statuses <= {"ok"}
