"""`capeval identify` as a user calls it: shapes, exit codes, what is loaded; on a lake that was only ingested."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from capeval_pipeline import cli
from capeval_pipeline.ingestion.batch import Batch
from capeval_pipeline.settings import load_settings
from capeval_pipeline.storage.conformity import conform
from capeval_pipeline.storage.lake import Lake
from capeval_pipeline.storage.tables import TABLES
from tests.ingestion.workspaces import MemoryWorkspace
from tests.sessions.worlds import World, lines

PROJECT = Path(__file__).resolve().parents[2]


def ingested(data: Path, paths: list[Path]) -> Batch:
    """The raw tables as `capeval ingest` leaves them, without a Dagster run."""
    workspace = MemoryWorkspace(data)
    batch = workspace.ingest(paths)
    lake = Lake(load_settings(data).lake_root)
    for benchmark_id, tables in workspace.raw.items():
        for key, table in tables.items():
            lake.write(key, benchmark_id, conform(TABLES[key], table, benchmark_id))
    return batch


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    data = tmp_path_factory.mktemp("identify") / "ws"
    world = World()
    folder = data.parent / "quiz"
    folder.mkdir()
    rows = world.source.item_scores.rename(columns={"model_id": "model", "quality": "score"})
    rows.assign(score=rows["score"] * 100).to_csv(folder / "results.csv", index=False)
    prompts = [{"item_id": item, "prompt": f"Frage nach µ, {item}?"} for item in world.items]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    (folder / "benchmark.yml").write_text("name: quiz\nscore_range: [0, 100]\nidentification: {rank: 1}\n")
    ingested(data, [folder])
    return data


@pytest.fixture
def identify(workspace, monkeypatch, capsys):
    """Call the command; gives exit code, stdout and stderr."""

    def call(*words: object, told: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["capeval", "--data", str(workspace), "identify", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(told)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_a_session_from_new_to_export_in_json(identify, tmp_path):
    code, out, _ = identify("new", "june", "-b", "quiz", "--arms", "m2,m1", "--batch", 4, "--json")
    made = json.loads(out)
    assert (code, made["arms"], made["n_items"], made["n_training_models"], made["rank"]) == (
        0, ["m1", "m2"], 60, 24, 1,
    )  # fmt: skip
    assert (made["policy"], made["delta"], made["score_high"]) == ("pulse", 0.05, 100)

    code, out, _ = identify("ask", "june", "--max", 6, "--json")
    asked = json.loads(out)
    assert (code, asked["session"], asked["n_pending"], asked["stop"], asked["reason"]) == (0, "june", 6, False, None)
    item = asked["asks"][0]["item_id"]
    assert asked["asks"][0] == {
        "ask_id": "a000001",
        "model_id": "m1",
        "item_id": item,
        "generation_id": 0,
        "prompt": f"Frage nach µ, {item}?",
    }

    good = [{"ask_id": ask["ask_id"], "score": 50, "cost_usd": 0.002, "status": "ok"} for ask in asked["asks"][:4]]
    code, out, _ = identify("tell", "june", "--json", told=lines([*good, {"ask_id": "zzz", "score": 1}]))
    told = json.loads(out)
    message = told["rejected"][0].pop("message")
    assert told == {
        "accepted": 4,
        "already_recorded": 0,
        "rejected": [{"line": 5, "ask_id": "zzz", "code": "unknown_ask"}],
        "n_pending": 2,
    }
    assert (code, message) == (1, "'zzz' was never handed out in this session")
    code, out, _ = identify("tell", "june", "--json", told=lines(good))
    assert (code, json.loads(out)["already_recorded"]) == (0, 4)
    reissued = json.loads(identify("ask", "june", "--reissue", "--json")[1])
    assert [ask["ask_id"] for ask in reissued["asks"]] == ["a000005", "a000006"]

    code, out, _ = identify("status", "june", "--json")
    status = json.loads(out)
    assert list(status) == [
        "session", "policy", "n_told", "n_pending", "n_waiting", "spent_usd", "certified", "best", "candidates",
        "delta", "sentence", "arms", "stop", "reason",
    ]  # fmt: skip
    assert (code, status["best"], status["candidates"], status["spent_usd"]) == (0, ["m1"], ["m1", "m2"], 0.008)
    assert status["arms"][0]["estimate"] == pytest.approx(0.5)
    assert status["arms"][1] == {
        "model_id": "m2", "n_answers": 0, "estimate": None, "lower": 0.0, "upper": 1.0, "is_candidate": True,
    }  # fmt: skip

    code, out, _ = identify("export", "june", "--to", tmp_path / "out", "--json")
    assert (code, json.loads(out)["n_results"], json.loads(out)["benchmark"]) == (0, 4, "quiz_june")


def test_what_people_read(identify, tmp_path):
    code, out, _ = identify("new", "july", "-b", "quiz", "--arms", "m1,m2,m3", "--policy", "race", "--seed", 3)
    assert code == 0
    assert "session july: 3 models x 60 items of quiz, policy race; predictions from 24 other models" in out
    code, out, _ = identify("ask", "july")
    assert code == 0 and "a000001" in out and "Frage nach µ" in out and out.rstrip().endswith("5 calls pending")
    identify("ask", "july", "--max", 100)
    assert "nothing to hand out until answers are told; 15 calls pending" in identify("ask", "july")[1]
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(lines([{"ask_id": f"a{n:06d}", "score": 100 if n <= 5 else 0} for n in range(1, 16)]) + b"?\n")
    code, out, err = identify("tell", "july", answers)
    assert code == 1
    assert out == "15 answers recorded, 0 recorded before, 1 refused, 0 calls pending\n"
    assert err == "line 16: bad_line: '?' is no JSON; expected one object a line\n"
    code, out, _ = identify("status", "july")
    assert out.startswith("After 15 of 180 calls (8 %): m1 leads at 1.00 (")
    assert [line.split()[:3] for line in out.splitlines() if line.split()[1:2] == ["5"]] == [
        ["m1", "5", "1.000"], ["m2", "5", "0.000"], ["m3", "5", "0.000"],
    ]  # fmt: skip


def test_wrong_use_is_refused_in_one_line(identify, tmp_path):
    (tmp_path / "arms.txt").write_text("m1\n\nm,2\n")
    (tmp_path / "items.csv").write_text("item_id\ni001\ni999\n")
    (tmp_path / "prices.csv").write_text("model_id,usd_per_call\nm1,0.1\nm1,0.2\n")
    (tmp_path / "price.csv").write_text("model_id,usd_per_call\nm1,cheap\n")
    new = ("new", "x", "-b", "quiz", "--policy", "race")
    for words, code, said in (
        (("ask", "nobody"), 2, "no session 'nobody'"),
        (("ask", "../up"), 2, "session name '../up'"),
        (("new", "x", "-b", "other", "--arms", "m1,m2"), 2, "no benchmark 'other'; there are: quiz"),
        ((*new, "--arms", "m1"), 2, "1 arm; expected at least 2"),
        ((*new, "--arms", f"@{tmp_path}/none.txt"), 2, "cannot be read"),
        ((*new, "--arms", "m1,m2", "--items", tmp_path / "items.csv"), 2, "'i999' is not in benchmark 'quiz'"),
        ((*new, "--arms", "m1,m2", "--items", tmp_path / "arms.txt"), 2, "--items"),
        ((*new, "--arms", "m1,m2", "--prices", tmp_path / "none.csv"), 2, "no such file"),
        ((*new, "--arms", "m1,m2", "--prices", tmp_path / "prices.csv"), 2, "'m1' has two prices"),
        ((*new, "--arms", "m1,m2", "--prices", tmp_path / "price.csv"), 2, "price of 'm1' is 'cheap'"),
        ((*new, "--arms", "m1,m2", "--cost-budget", 3), 2, "needs a price for every arm"),
    ):
        ended, out, err = identify(*words)
        assert (ended, out) == (code, ""), words
        assert err.startswith("capeval: ") and said in err and err.count("\n") == 1, err
    assert identify(*new, "--arms", f"@{tmp_path}/arms.txt", "--json")[0] == 0
    ended, _, err = identify(*new, "--arms", "m1,m2")
    assert (ended, "session 'x' exists" in err) == (1, True)
    ended, _, err = identify("tell", "x", tmp_path / "none.jsonl")
    assert (ended, "cannot be read" in err) == (2, True)


def test_a_budget_and_prices_from_a_file_stop_the_session(identify, tmp_path):
    (tmp_path / "prices.csv").write_text("model_id,usd_per_call\nm1,0.5\nm2,0.25\nother,9\n")
    (tmp_path / "items.csv").write_text("item_id,why\n" + "".join(f"i{n:03d},some\n" for n in range(30)))
    _, out, _ = identify(
        "new", "cheap", "-b", "quiz", "--arms", "m1,m2", "--policy", "uniform", "--batch", 4, "--cost-budget", 2.5,
        "--prices", tmp_path / "prices.csv", "--items", tmp_path / "items.csv", "--json",
    )  # fmt: skip
    assert (json.loads(out)["prices"], json.loads(out)["n_items"]) == ({"m1": 0.5, "m2": 0.25}, 30)
    asked = json.loads(identify("ask", "cheap", "--max", 50, "--json")[1])
    assert [ask["model_id"] for ask in asked["asks"]] == ["m1"] * 4 + ["m2"] * 2
    identify("tell", "cheap", told=lines([{"ask_id": ask["ask_id"], "score": 100} for ask in asked["asks"]]))
    end = json.loads(identify("ask", "cheap", "--json")[1])
    assert (end["asks"], end["stop"], end["reason"]) == ([], True, "cost_budget")
    assert "the next call would exceed the budget in dollars" in identify("status", "cheap")[1]


PROBE = """
import sys
from capeval_pipeline import cli
sys.argv = ["capeval", *sys.argv[1:]]
try:
    cli.main()
finally:
    loaded = sorted({name.split(".")[0] for name in sys.modules} & set(sys.stderr_names.split()))
    print(loaded, file=sys.stderr)
"""


def test_asking_and_telling_load_neither_dagster_nor_pandas(workspace, identify):
    identify("new", "light", "-b", "quiz", "--arms", "m1,m2", "--json")
    heavy = "dagster pandas sklearn deltalake duckdb"
    for words, further in ((["ask", "light"], ""), (["status", "light"], ""), (["tell", "light"], " numba")):
        probe = PROBE.replace("sys.stderr_names", repr(heavy + further))
        done = subprocess.run(
            [sys.executable, "-c", probe, "--data", str(workspace), "identify", *words],
            input=b"", capture_output=True, cwd=PROJECT, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode().strip() == "[]"


def test_an_export_is_read_back_with_every_score_cost_and_error(identify, tmp_path):
    identify("new", "back", "-b", "quiz", "--arms", "m1,m2", "--policy", "ucb_e", "--batch", 5)
    asks = json.loads(identify("ask", "back", "--json")[1])["asks"]
    answers = [{"ask_id": ask["ask_id"], "score": 12.5 * n, "cost_usd": 0.001 * n} for n, ask in enumerate(asks)]
    failed = {"ask_id": asks[-1]["ask_id"], "score": None, "status": "error"}
    identify("tell", "back", told=lines([*answers[:-1], failed]))
    for _ in range(3):
        again = json.loads(identify("ask", "back", "--max", 1, "--json")[1])["asks"][0]
        identify("tell", "back", told=lines([{**failed, "ask_id": again["ask_id"]}]))
    code, out, _ = identify("export", "back", "--to", tmp_path / "out")
    assert (code, out.splitlines()[1]) == (0, f"next: `capeval ingest {tmp_path}/out`")
    assert identify("export", "back", "--to", tmp_path / "out")[0] == 0  # an earlier export is written again
    reports = ingested(tmp_path / "ws", [tmp_path / "out"]).reports
    (report,) = [report for report in reports if report.status != "companion"]
    assert (report.format, report.n_read, report.n_kept, report.n_rejected) == ("canonical", 5, 5, 0)
    assert not report.warnings
    lake = Lake(load_settings(tmp_path / "ws").lake_root)
    rows = lake.read("raw.generations", "quiz_back").to_pylist()
    found = {row["item_id"]: (row["status"], row["score"], row["cost_usd"]) for row in rows}
    expected = {ask["item_id"]: ("ok", 12.5 * n, 0.001 * n) for n, ask in enumerate(asks[:-1])}  # a told 0 is a price
    assert found == expected | {asks[-1]["item_id"]: ("error", None, None)}
    (facts,) = lake.read("raw.benchmarks", "quiz_back").to_pylist()
    assert (facts["score_low"], facts["score_high"], facts["error_policy"]) == (0, 100, "wrong")

    (tmp_path / "mine").mkdir()
    pq.write_table(pq.read_table(tmp_path / "out" / "results.parquet"), tmp_path / "mine" / "results.parquet")
    code, _, err = identify("export", "back", "--to", tmp_path / "mine")
    assert (code, "holds a results.parquet that no export wrote" in err) == (1, True)
