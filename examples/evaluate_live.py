"""Find the best of four models behind an HTTP API in as few calls as it takes, eight at a time.

    capeval ingest data/sample/support_desk
    python examples/evaluate_live.py

`call_model` and `score_of` are what you would replace: the request to your provider, and how an answer is graded. The
loop in `worker` stays as it is. Stop the script whenever you like, kill it even: start it again and it goes on from
where it was. No answer that was told is paid for twice; calls that were under way are made again, one a worker at most.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import stub_model_server

from capeval_pipeline.errors import CapevalError, UsageError
from capeval_pipeline.sessions import Ask, Session

N_WORKERS = 8
MAX_TRIES = 3


def call_model(url: str, ask: Ask) -> dict:
    """One answer from the API, tried again when the server says 500. Raises OSError when it goes on failing."""
    body = json.dumps({"model": ask.model_id, "item_id": ask.item_id, "prompt": ask.prompt}).encode()
    request = urllib.request.Request(f"{url}/v1/answer", body, {"Content-Type": "application/json"})
    for attempt in range(1, MAX_TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 or attempt == MAX_TRIES:
                raise
            time.sleep(0.05 * 2**attempt)
    raise AssertionError("unreachable")


def score_of(item_id: str, text: str) -> float:
    """1 for the right letter, else 0."""
    return float(text.removeprefix("Answer: ").strip() == stub_model_server.right_letter(item_id))


def outcome_of(url: str, ask: Ask) -> dict:
    """The line to tell about one ask. A call that keeps failing is told as an error, never left out: the session hands
    it out again, and in the end it counts as wrong. Leaving out what fails would favour models that fail."""
    try:
        answer = call_model(url, ask)
    except OSError:
        return {"ask_id": ask.ask_id, "score": None, "status": "error"}
    score = score_of(ask.item_id, answer["text"])
    return {"ask_id": ask.ask_id, "score": score, "cost_usd": answer["cost_usd"], "status": "ok"}


def worker(session: Session, url: str) -> int:
    """Ask, call, tell until the session stops; how many answers this worker told."""
    n_told = 0
    while True:
        reply = session.ask(1)
        if reply.stop:
            return n_told
        if not reply.asks:  # all that may be asked now is under way with the other workers
            time.sleep(0.01)
            continue
        told = session.tell([outcome_of(url, ask) for ask in reply.asks])
        n_told += told.accepted


def open_or_create(arguments: argparse.Namespace) -> Session:
    """The session of that name, made if there is none."""
    try:
        return Session.open(arguments.data, arguments.session)
    except UsageError:  # there is none of that name yet
        return Session.create(
            arguments.data,
            arguments.session,
            benchmark=arguments.benchmark,
            arms=list(stub_model_server.SKILLS),
            policy=arguments.policy,
            delta=0.05,
            prices=stub_model_server.USD_PER_CALL,
            cost_budget=arguments.cost_budget,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    workspace = Path(os.environ.get("CAPEVAL_DATA") or "data")
    parser.add_argument("--data", type=Path, default=workspace, help="the workspace, else CAPEVAL_DATA, else ./data")
    parser.add_argument("--benchmark", default="support_desk")
    parser.add_argument("--session", default="example")
    parser.add_argument("--policy", default="race")
    parser.add_argument("--cost-budget", type=float, default=10.0, help="most dollars to spend")
    parser.add_argument("--url", help="of a server that runs already; else one is started")
    parser.add_argument("--export", type=Path, help="folder to write what was told to, for `capeval ingest`")
    arguments = parser.parse_args()

    session = open_or_create(arguments)
    server = None if arguments.url else stub_model_server.start()
    url = arguments.url or f"http://127.0.0.1:{server.server_address[1]}"
    # Calls that were under way when an earlier run was stopped: made first, under the same ids.
    left_over = session.ask(reissue=True).asks
    with ThreadPoolExecutor(N_WORKERS) as pool:
        list(pool.map(lambda ask: session.tell(outcome_of(url, ask)), left_over))
        told = list(pool.map(lambda _: worker(session, url), range(N_WORKERS)))
    if server is not None:
        print(f"{server.n_calls} HTTP calls by {N_WORKERS} workers, who told {', '.join(map(str, told))} answers")
        server.shutdown()
        server.server_close()
    print(session.status().sentence)
    if arguments.export is not None:
        written = session.export(arguments.export)
        print(f"{written.n_results} results in {written.folder}; `capeval ingest {written.folder}` reads them")


if __name__ == "__main__":
    try:
        main()
    except CapevalError as error:
        sys.exit(str(error))
