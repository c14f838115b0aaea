"""Makes the sample benchmarks of this folder from planted worlds: `python data/sample/make_sample.py [FOLDER]`.

The same program gives the same bytes. Three formats, so that a first run meets what real folders hold:
`support_desk/` the canonical folder with several generations and costs, `circuit_quiz/` a wide table with a few
missing cells, `everyday_units/` folders of lm-evaluation-harness. Labs, models and prompts are invented.
Text tables only: the bytes of a Parquet file depend on the version of the library that writes it.
"""

import csv
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from capeval_pipeline.methods.synthetic import (
    SUPPORT_DESK,
    fill_prompts,
    make_conversion_questions,
    make_generation_world,
    make_low_rank_world,
)

SEED = 20_260_131
SUPPORT_DESK_MODELS = (
    "ashgrove/corrie-mini",
    "ashgrove/corrie-max",
    "kestova/bract-flash",
    "kestova/bract-2",
    "quillmere/sedge-7b",
    "quillmere/sedge-70b",
    "tarnhollow/heron-small",
    "tarnhollow/heron-large",
)
OPENINGS = ("", "", "Hello.", "Second request:", "From the chat:", "Note from the shift before:", "For the help page:")
UNITS_MODELS = ("ashgrove/corrie-mini", "kestova/bract-2", "quillmere/sedge-7b", "tarnhollow/heron-small")
UNITS_SKILL = {
    "ashgrove/corrie-mini": 0.6,
    "kestova/bract-2": 1.4,
    "quillmere/sedge-7b": 0.2,
    "tarnhollow/heron-small": 0.9,
}
UNITS_TIME = "2026-01-{day:02d}T09-30-00.{serial:06d}"


def make_sample(folder: Path) -> None:
    """Write the three sample benchmarks below `folder`; existing files of the same names are overwritten."""
    write_support_desk(folder / "support_desk")
    write_circuit_quiz(folder / "circuit_quiz")
    write_everyday_units(folder / "everyday_units")


def write_support_desk(folder: Path) -> None:
    """500 questions to a support desk, 8 models, 5 generations, costs and latencies: every stage has work here."""
    rng = np.random.default_rng([SEED, 1])
    n_items = 500
    world = make_generation_world(
        "heterogeneous", n_items=n_items, n_models=8, n_generations=5, rng=rng, n_topics=len(SUPPORT_DESK)
    )
    prompts = fill_prompts(SUPPORT_DESK, world.topic, openings=OPENINGS, rng=rng)
    item_ids = [f"ticket-{index:03d}" for index in range(n_items)]
    # The better names go to the dearer models, as a reader would expect.
    by_cost = np.argsort(world.expected_cost_usd.mean(axis=0), kind="stable")
    names = dict(zip(by_cost.tolist(), sorted(SUPPORT_DESK_MODELS, key=_is_large), strict=True))
    rows = [(item_ids[item], prompts[item], SUPPORT_DESK[int(world.topic[item])].name) for item in range(n_items)]
    _write_csv(folder / "items.csv", ("item_id", "prompt", "category"), rows)
    results = [
        (
            names[model],
            item_ids[item],
            generation,
            int(world.scores[item, model, generation]),
            f"{world.cost_usd[item, model, generation]:.3g}",
            f"{world.latency_s[item, model, generation]:.3g}",
        )
        for model in range(8)
        for item in range(n_items)
        for generation in range(5)
    ]
    _write_csv(folder / "results.csv", ("model", "item_id", "generation", "score", "cost_usd", "latency_s"), results)
    _write_text(
        folder / "benchmark.yml",
        "name: support_desk\n"
        "score_range: [0, 1]\n"
        "higher_is_better: true\n"
        "has_true_generations: true\n"
        "identification:      # a smaller study than the default, so that the demo stays quick\n"
        "  n_seeds: 16\n",
    )


def write_circuit_quiz(folder: Path) -> None:
    """400 right-or-wrong answers of 120 models in one wide table; enough models to learn from some of them."""
    rng = np.random.default_rng([SEED, 2])
    n_items, n_models = 400, 120
    world = make_low_rank_world(n_items=n_items, n_models=n_models, rank=3, rng=rng)
    labs = ("ashgrove", "kestova", "quillmere", "tarnhollow", "ossery", "lindwater")
    families = {"ashgrove": "corrie", "kestova": "bract", "quillmere": "sedge", "tarnhollow": "heron"}
    families |= {"ossery": "plover", "lindwater": "alder"}
    models = [f"{labs[i % 6]}/{families[labs[i % 6]]}-{1 + i // 24}.{(i // 6) % 4}" for i in range(n_models)]
    cells = world.scores.astype(int).astype(str)
    # A few cells were never run; two models miss many, so that a stage has something to leave out by name.
    cells[rng.random(cells.shape) < 0.0005] = ""
    cells[rng.random(n_items) < 0.06, 17] = ""
    cells[350:, 64] = ""
    rows = [(f"circuit-{item:03d}", *cells[item]) for item in range(n_items)]
    _write_csv(folder / "scores.csv", ("item_id", *models), rows)
    _write_text(
        folder / "benchmark.yml",
        "name: circuit_quiz\n"
        "metric: accuracy\n"
        "score_range: [0, 1]\n"
        "identification:      # a smaller study than the default, so that the demo stays quick\n"
        "  n_seeds: 24\n",
    )


def write_everyday_units(folder: Path) -> None:
    """200 conversion questions answered by 4 models, as lm-evaluation-harness writes its sample files."""
    rng = np.random.default_rng([SEED, 3])
    questions = make_conversion_questions(200, rng=rng)
    topics = sorted({question.topic for question in questions})
    topic_effect = rng.normal(0.0, 0.9, (len(UNITS_MODELS), len(topics)))
    difficulty = rng.normal(0.0, 1.2, len(questions))
    for number, model in enumerate(UNITS_MODELS):
        effect = topic_effect[number, [topics.index(question.topic) for question in questions]]
        chance = 1.0 / (1.0 + np.exp(-(UNITS_SKILL[model] + effect - difficulty)))
        is_right = rng.random(len(questions)) < chance
        miss = rng.choice([2, 5, 10, 60, 100], size=len(questions))
        samples = []
        for doc_id, question in enumerate(questions):
            answer = question.answer if is_right[doc_id] else str(int(question.answer) * int(miss[doc_id]))
            samples.append(_units_sample(doc_id, question.question, question.answer, question.topic, answer))
        stamp = UNITS_TIME.format(day=12 + number, serial=104_729 * (number + 1))
        folder_of_model = folder / model.replace("/", "__")
        lines = "".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
        _write_text(folder_of_model / f"samples_everyday_units_{stamp}.jsonl", lines)
        results = _units_results(model, float(np.mean(is_right)), len(questions))
        _write_text(folder_of_model / f"results_{stamp}.json", json.dumps(results, indent=2) + "\n")


def _units_sample(doc_id: int, question: str, target: str, topic: str, answer: str) -> dict[str, object]:
    doc = {"question": question, "answer": target, "kind": topic}
    text = f"Question: {question}\nAnswer with a number only.\nAnswer:"
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": text, "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [[f" {answer}"]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": _sha256(json.dumps(doc, sort_keys=True)),
        "prompt_hash": _sha256(text),
        "target_hash": _sha256(target),
        "exact_match": float(answer == target),
    }


def _units_results(model: str, mean: float, n_questions: int) -> dict[str, object]:
    task = "everyday_units"
    stderr = (mean * (1 - mean) / (n_questions - 1)) ** 0.5
    return {
        "results": {task: {"alias": task, "exact_match,none": mean, "exact_match_stderr,none": round(stderr, 6)}},
        "group_subtasks": {task: []},
        "configs": {task: {"task": task, "output_type": "generate_until", "num_fewshot": 0, "repeats": 1}},
        "versions": {task: 1.0},
        "n-shot": {task: 0},
        "n-samples": {task: {"original": n_questions, "effective": n_questions}},
        "higher_is_better": {task: {"exact_match": True}},
        "config": {"model": "hf", "model_args": f"pretrained={model}", "batch_size": 8, "limit": None},
        "model_name": model,
        "lm_eval_version": "0.4.9",
    }


def _is_large(model: str) -> tuple[bool, str]:
    return model.endswith(("-max", "-2", "-70b", "-large")), model


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write_csv(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
