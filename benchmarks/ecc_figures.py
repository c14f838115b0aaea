"""The figures of the capability stage beside those it must reach, on one sample and split of each benchmark.

`python -m benchmarks.ecc_figures [SHARED] [BENCHMARK ...]` prints a table: what is asked, what came out, and whether it
holds. The benchmarks are the real ones and the planted worlds of the shared folder; a minute or two of CPU each.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tests.orchestration.memory_part import MemoryPart, part_of

BENCHMARKS = {
    "routerbench_part": "data",
    "llmrouter_dc9": "data",
    "mmlu_pro": "data",
    "ecc_planted_a": "cases",
    "ecc_planted_b": "cases",
}
GAINS = {
    "routerbench_part": {
        "ecc emb": (1.7, 0.9),
        "emb_only emb": (7.4, 0.7),
        "comp_only emb": (3.1, 1.4),
        "ecc_shrunk emb": (8.3, 1.3),
        "linear emb": (9.5, 1.3),
        "human_labels emb": (9.3, 1.3),
        "blend emb": (9.8, 1.3),
    },
    "llmrouter_dc9": {
        "ecc emb": (18.1, 0.5),
        "emb_only emb": (18.3, 1.4),
        "comp_only emb": (9.8, 1.9),
        "ecc_shrunk emb": (20.3, 1.2),
        "linear emb": (20.4, 0.9),
        "human_labels emb": (29.6, 1.1),
        "blend emb": (30.2, 1.2),
    },
}
"""Mean and standard deviation over samples and splits. The planted worlds' own stand with their truth."""


@dataclass(frozen=True)
class Figure:
    """A figure, and the range it is asked to lie in."""

    benchmark: str
    line: str
    low: float
    high: float
    measured: float

    @property
    def holds(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def asked(self) -> str:
        if np.isinf(self.high):
            return f"≥ {self.low:.1f}"
        return f"{self.low:.3g}" if self.low == self.high else f"{self.low:.1f} to {self.high:.1f}"


def made_part(shared: Path, benchmark: str, *, is_full: bool = True) -> MemoryPart:
    """The benchmark with every table of the stage; without the long ones unless is_full. Domains are left out."""
    from capeval_pipeline.orchestration.assets.capabilities import CAPABILITY_STEPS
    from capeval_pipeline.stage_settings.capabilities import CapabilitiesSettings

    part = part_of(shared / BENCHMARKS[benchmark] / benchmark)
    for step in CAPABILITY_STEPS:
        if step.name != "out_of_domain" and (is_full or not step.is_long):
            part.run(step, CapabilitiesSettings())
    return part


def figures(benchmark: str, part: MemoryPart) -> Iterator[Figure]:
    """What is asked of the benchmark and what its tables say."""
    rows = part.read("estimates.ecc_evaluation").set_index(["method", "inference", "pair_subset"])["gain_percent"]
    gain = rows.to_dict()

    def at_least(line: str, low: float, measured: float) -> Figure:
        return Figure(benchmark, line, low, np.inf, measured)

    emb = {name: gain[name, "emb", "all"] for name in ("ecc", "ecc_shrunk", "emb_only", "linear", "blend")}
    emb |= {"human_labels": gain["human_labels", "emb", "all"]}
    control = gain["carry_over_control", "probe", "all"]
    singles = max(value for name, value in emb.items() if name != "blend")
    is_real = BENCHMARKS[benchmark] == "data"
    for name, (mean, deviation) in GAINS.get(benchmark, {}).items():
        measured = gain[(*name.split(), "all")]
        yield Figure(benchmark, f"{name}, all", mean - 4 * deviation, mean + 4 * deviation, measured)
    yield Figure(benchmark, "control, disjoint", -1e-9, 1e-9, gain["carry_over_control", "probe", "disjoint"])
    if benchmark in ("routerbench_part", "llmrouter_dc9"):
        calibrated = gain["ecc_shrunk", "emb_probe_calibrated", "all"]
        disjoint = gain["ecc_shrunk", "emb_probe_calibrated", "disjoint"]
        yield at_least(
            "ecc_shrunk − max(emb_only, ecc), emb", -1.0, emb["ecc_shrunk"] - max(emb["emb_only"], emb["ecc"])
        )
        yield at_least("calibrated probe − control, all", 4.0, calibrated - control)
        yield at_least(
            "calibrated probe − ecc emb_probe, disjoint", -2.0, disjoint - gain["ecc", "emb_probe", "disjoint"]
        )
    yield at_least("blend − best single method, emb", -1.5 if is_real else -1.0, emb["blend"] - singles)
    if benchmark == "routerbench_part":
        routers = part.read("estimates.routing_evaluation").set_index(["router", "probe_policy"])
        yield Figure(benchmark, "control, all", 43, 53, control)
        yield Figure(benchmark, "ecc emb_probe, all", 30, 43, gain["ecc", "emb_probe", "all"])
        share = routers.loc[("probe_winner", "paper"), "share_of_oracle_gain"]
        yield Figure(benchmark, "probe_winner under paper, share of the oracle's gain", 1, 1, share)
        yield Figure(benchmark, "agreement on shared pairs", 1, 1, agreement(part))
    if benchmark == "llmrouter_dc9":
        yield at_least("human_labels, emb", 24.0, emb["human_labels"])
    if benchmark == "mmlu_pro":
        yield Figure(benchmark, "human_labels, emb", 0.5, 2.5, emb["human_labels"])
    if benchmark == "ecc_planted_a":
        yield at_least("ecc_shrunk − emb_only, emb", 3.0, emb["ecc_shrunk"] - emb["emb_only"])
        yield at_least("ecc_shrunk, emb", 8.0, emb["ecc_shrunk"])
        yield Figure(benchmark, "control, all", 25, 43, control)
    if benchmark == "ecc_planted_b":
        yield at_least("ecc_shrunk, emb", 40.0, emb["ecc_shrunk"])
        yield at_least("ecc_shrunk − linear, emb", -1.0, emb["ecc_shrunk"] - emb["linear"])
    useful = {"routerbench_part": 1, "ecc_planted_b": 1}.get(benchmark, 0)
    yield Figure(benchmark, "the sentence calls the probe useful", useful, useful, float(is_called_useful(part)))
    yield from _long_figures(benchmark, part)


def _long_figures(benchmark: str, part: MemoryPart) -> Iterator[Figure]:
    policies = part.read("estimates.probe_policies").set_index(["policy", "pair_subset"])["gain_percent"]
    if len(policies):
        subset, low = {"routerbench_part": ("disjoint", 6.0), "llmrouter_dc9": ("all", 1.0)}.get(benchmark, ("", 0.0))
        if subset:
            found = policies["eig", subset] - policies["random", subset]
            yield Figure(benchmark, f"eig − random probe, {subset}", low, np.inf, found)
    cold = part.read("estimates.cold_start_evaluation")
    lows = {"routerbench_part": (0.0, 0.0), "llmrouter_dc9": (6.0, 0.0), "ecc_planted_a": (6.0, -3.0)}
    if len(cold) and benchmark in lows:
        mean = cold[cold["pull_budget"] == 100].groupby("method")[["gain_percent", "gain_percent_unseen"]].mean()
        ahead = mean.loc["hierarchical", "gain_percent"] - mean.loc["authors_like", "gain_percent"]
        yield Figure(benchmark, "cold start at 100: hierarchical − authors_like", lows[benchmark][0], np.inf, ahead)
        unseen = mean.loc["hierarchical", "gain_percent_unseen"]
        yield Figure(benchmark, "cold start at 100: hierarchical, unseen", lows[benchmark][1], np.inf, unseen)


def agreement(part: MemoryPart) -> float:
    """Share of test pairs with a model of the probe that the probe's outcome carries over to."""
    votes = part.read("intermediate.comparisons")
    votes = votes[votes["split"] == "test"]
    a_won = votes["outcome"] == 1
    votes = votes.assign(
        winner=votes["model_a_id"].where(a_won, votes["model_b_id"]),
        loser=votes["model_b_id"].where(a_won, votes["model_a_id"]),
    )[["item_id", "sample_rank", "winner", "loser"]]
    probes = votes[votes["sample_rank"] == 0].drop(columns="sample_rank")
    pairs = votes[votes["sample_rank"] > 0].merge(probes, on="item_id", suffixes=("", "_of_probe"))
    supports = (pairs["winner"] == pairs["winner_of_probe"]) | (pairs["loser"] == pairs["loser_of_probe"])
    opposes = (pairs["winner"] == pairs["loser_of_probe"]) | (pairs["loser"] == pairs["winner_of_probe"])
    return float((supports & ~opposes)[supports | opposes].mean())


def is_called_useful(part: MemoryPart) -> bool:
    """Whether the probe's sentence does."""
    (sentence,) = [verdict.sentence for verdict in part.verdicts if verdict.question == "probe"]
    return sentence.endswith("The probe is useful beyond what it gives away itself.")


def main() -> None:
    shared = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared"
    found = []
    for benchmark in sys.argv[2:] or BENCHMARKS:
        part = made_part(shared, benchmark)
        chosen = part.read("estimates.ecc_grid").query("is_chosen").iloc[0]
        print(
            f"{benchmark}: K {chosen.n_clusters}, ridge {chosen.ridge:g}, weight {chosen.embedding_weight:g}",
            flush=True,
        )
        found += list(figures(benchmark, part))
    table = pd.DataFrame(
        [
            {"benchmark": f.benchmark, "figure": f.line, "asked": f.asked, "measured": f"{f.measured:.2f}", "": f.holds}
            for f in found
        ]
    )
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
