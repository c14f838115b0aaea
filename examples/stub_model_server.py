"""A stand-in for a provider's API: a few made-up models that answer questions over HTTP, sometimes with an error 500.

POST /v1/answer {"model": …, "item_id": …, "prompt": …} gives {"text": "Answer: B", "cost_usd": 0.0021}. What a model
answers to an item never changes; one call in twenty fails the first time it is made.
"""

import hashlib
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SKILLS = {"grove/alder-9b": 0.2, "grove/birch-30b": 0.9, "grove/cedar-70b": 2.6, "grove/dogwood-3b": -0.6}
USD_PER_CALL = {
    "grove/alder-9b": 0.0011,
    "grove/birch-30b": 0.0032,
    "grove/cedar-70b": 0.0075,
    "grove/dogwood-3b": 0.0004,
}
LETTERS = "ABCD"
FAILING_SHARE = 0.05


def share(*parts: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int(hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12], 16) / 16**12


def right_letter(item_id: str) -> str:
    """The key of the made-up exam."""
    return LETTERS[int(4 * share("key", item_id))]


def answer(model: str, item_id: str) -> str:
    """What a model says: right more often the better the model and the easier the item."""
    difficulty = 3.0 * share("difficulty", item_id) - 1.5
    chance = 1.0 / (1.0 + math.exp(-(SKILLS[model] - difficulty)))
    right = right_letter(item_id)
    if share("answer", model, item_id) < chance:
        return f"Answer: {right}"
    return f"Answer: {LETTERS[(LETTERS.index(right) + 1) % 4]}"


class Handler(BaseHTTPRequestHandler):
    """One request; the server keeps which cells were tried before."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cell = (asked["model"], asked["item_id"])
        with self.server.lock:
            is_first = cell not in self.server.tried
            self.server.tried.add(cell)
            self.server.n_calls += 1
        time.sleep(self.server.seconds_per_call * share("seconds", *cell))
        if is_first and share("fails", *cell) < FAILING_SHARE:
            self.reply(500, {"error": "overloaded, try again"})
        elif asked["model"] not in SKILLS:
            self.reply(404, {"error": f"no model {asked['model']}"})
        else:
            self.reply(200, {"text": answer(*cell), "cost_usd": USD_PER_CALL[asked["model"]]})

    def reply(self, status: int, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged: the example prints what matters."""


def start(seconds_per_call: float = 0.02) -> ThreadingHTTPServer:
    """A server on a free port of this machine, in a thread; `server.server_address[1]` is the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.lock, server.tried, server.n_calls = threading.Lock(), set(), 0
    server.seconds_per_call = seconds_per_call
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    running = start()
    print(f"http://127.0.0.1:{running.server_address[1]}", flush=True)
    threading.Event().wait()
