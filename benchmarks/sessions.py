"""What a session costs: CPU seconds of ask, tell and status through the Python API and of the commands.

    python benchmarks/sessions.py [--arms 200 --items 1000 --told 50000 --batch-told 15 --policy pulse]

Made-up scores, a made-up predictor, a workspace in a temporary folder. CPU time, since a busy machine makes wall time
say nothing; a tell and an ask also wait for the disk once each. By hand, never a test.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from capeval_pipeline.kernel_cache import use_kernel_cache


def make(data: Path, n_arms: int, n_items: int, policy: str, rank: int):
    """A session with the given predictor, and the scores that its arms would get."""
    from capeval_pipeline.methods.identification.records import Predictor
    from capeval_pipeline.methods.item_factors import PairMoments
    from capeval_pipeline.sessions import Session, SessionConfig, SessionItem
    from capeval_pipeline.sessions.folder import content_version, items_content, predictor_content
    from capeval_pipeline.sessions.setup import SessionSetup

    rng = np.random.default_rng(0)
    factors, rows = rng.normal(size=(n_items, rank)), 0.8 * rng.normal(size=(n_arms, rank))
    scores = (rng.random((n_arms, n_items)) < 1 / (1 + np.exp(-(rows @ factors.T)))).astype(float)
    items = tuple(SessionItem(f"i{item:05d}", f"prompt {item} " + "x" * 200) for item in range(n_items))
    predictor = Predictor(factors, np.zeros(rank), 1.0, PairMoments(0.1, 0.12, 0.24))
    config = SessionConfig(
        session="speed", benchmark_id="made_up", policy=policy, arms=tuple(f"m{arm:03d}" for arm in range(n_arms)),
        n_items=n_items, items_version=content_version(items_content(items)),
        batch=int(min(32, max(5, round(n_items / 40)))), delta=0.05, seed=0, exploration=1.0, pseudo_pairs=10.0,
        score_low=0.0, score_high=1.0, higher_is_better=True,
        predictor_version=content_version(predictor_content(predictor)), rank=rank,
    )  # fmt: skip
    return Session.start(data, SessionSetup(config, items, predictor)), scores


def cpu(of: int = resource.RUSAGE_SELF) -> float:
    """CPU seconds used so far, by this process or by its children."""
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


def through_the_api(session, scores: np.ndarray, n_told: int, batch_told: int) -> None:
    """Ask and tell until n_told answers are in, and print what one ask, tell and status took."""
    arms = {arm: place for place, arm in enumerate(session.config.arms)}
    asks, tells, made = [], [], 0
    while made < n_told:
        started, wall = cpu(), time.perf_counter()
        reply = session.ask()
        asks.append((cpu() - started, time.perf_counter() - wall))
        if reply.stop:
            break
        lines = [
            {"ask_id": ask.ask_id, "score": scores[arms[ask.model_id], int(ask.item_id[1:])], "cost_usd": 0.001}
            for ask in reply.asks
        ]
        for start in range(0, len(lines), batch_told):
            started = cpu()
            session.tell(lines[start : start + batch_told])
            tells.append(cpu() - started)
        made += len(lines)
    for name, values in (("ask, CPU", [own for own, _ in asks]), ("ask, wall", [own for _, own in asks])):
        print(f"{name}: median {1000 * np.median(values):.2f} ms, 99 % {1000 * np.percentile(values, 99):.2f} ms")
    print(f"tell, CPU: median {1000 * np.median(tells):.2f} ms; {made} told in {len(tells)} tells")
    started = cpu()
    session.status()
    print(f"status, CPU: {1000 * (cpu() - started):.1f} ms")


def commands(data: Path) -> None:
    """CPU seconds of each command, the smallest of three runs; the first run of all loads what was compiled."""
    environment = {**os.environ, "CAPEVAL_DATA": str(data)}
    command = [sys.executable, "-c", "from capeval_pipeline.cli import main; main()", "identify"]
    told = json.dumps({"ask_id": "a000001", "score": 1.0}).encode()
    for words in (["status", "speed", "--json"], ["ask", "speed", "--json"], ["tell", "speed", "--json"]):
        seconds = []
        for _ in range(3):
            started = cpu(resource.RUSAGE_CHILDREN)
            subprocess.run([*command, *words], input=told, capture_output=True, env=environment, check=False)
            seconds.append(cpu(resource.RUSAGE_CHILDREN) - started)
        print(f"capeval identify {words[0]}: {min(seconds):.2f} CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("arms", 200), ("items", 1000), ("told", 50_000), ("batch-told", 15), ("rank", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--policy", default="pulse")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        use_kernel_cache(data / "cache" / "kernels")
        session, scores = make(data, chosen.arms, chosen.items, chosen.policy, chosen.rank)
        session.ask(reissue=True)
        through_the_api(session, scores, chosen.told, chosen.batch_told)
        commands(data)


if __name__ == "__main__":
    main()
