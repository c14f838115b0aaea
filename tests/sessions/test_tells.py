"""Every way in which a told line can be wrong, with its code; and lines that are told again."""

import json

import pytest

from tests.sessions.worlds import World, lines


@pytest.fixture(scope="module")
def world() -> World:
    return World(3, 30)


@pytest.fixture
def session(world, tmp_path):
    made = world.session(tmp_path, policy="ucb_e", batch=5)
    made.ask()
    return made


WRONG = [
    ("nonsense", "bad_line", "is no JSON"),
    ("[1, 2]", "bad_line", "is no object"),
    ('"a000001"', "bad_line", "is no object"),
    ("[" * 100_000, "bad_line", "is no JSON"),
    (b'{"ask_id":"a000001","score":\xff}', "bad_line", "no UTF-8"),
    ('{"score":1}', "bad_line", "no model_id; expected ask_id"),
    ('{"model_id":"arm0","score":1}', "bad_line", "no item_id"),
    ('{"ask_id":17,"score":1}', "bad_line", "ask_id is 17"),
    ('{"ask_id":"a' + "1" * 5_000 + '","score":1}', "unknown_ask", "was never handed out"),
    ('{"ask_id":"a000001","score":1,"cost_usd":1' + "0" * 400 + "}", "bad_line", "cost_usd is 1000"),
    ('{"ask_id":"a000001","score":1,"scroe":1}', "bad_line", "unknown key 'scroe'"),
    ('{"ask_id":"a000001","score":1,"status":"fine"}', "bad_line", "status is 'fine'"),
    ('{"ask_id":"a000001","score":1,"status":null}', "bad_line", "status is None"),
    ('{"ask_id":"a000001","score":1,"status":"error"}', "bad_line", "an error with a score"),
    ('{"ask_id":"a000001","score":1,"cost_usd":-1}', "bad_line", "cost_usd is -1"),
    ('{"ask_id":"a000001","score":1,"cost_usd":NaN}', "bad_line", "cost_usd is nan"),
    ('{"ask_id":"a000001","score":1,"cost_usd":"0.1"}', "bad_line", "cost_usd is '0.1'"),
    ('{"ask_id":"zzz","score":1}', "unknown_ask", "'zzz' was never handed out"),
    ('{"ask_id":"a000006","score":1}', "unknown_ask", "'a000006' was never handed out"),
    ('{"ask_id":"a000000","score":1}', "unknown_ask", "never handed out"),
    ('{"ask_id":"a1","score":1}', "unknown_ask", "never handed out"),
    ('{"ask_id":"a00000١","score":1}', "unknown_ask", "never handed out"),
    ('{"ask_id":"\\ud800","score":1}', "unknown_ask", "never handed out"),
    ('{"ask_id":"a000001","model_id":"arm2","score":1}', "unknown_ask", "asked for another model_id"),
    ('{"model_id":"arm2","item_id":"i000","score":1}', "unknown_ask", "was never asked item"),
    ('{"model_id":"nobody","item_id":"i000","score":1}', "unknown_ask", "was never asked item"),
    ('{"ask_id":"a000001"}', "not_a_number", "score is None"),
    ('{"ask_id":"a000001","score":null}', "not_a_number", "score is None"),
    ('{"ask_id":"a000001","score":NaN}', "not_a_number", "score is nan"),
    ('{"ask_id":"a000001","score":Infinity}', "not_a_number", "score is inf"),
    ('{"ask_id":"a000001","score":1e999}', "not_a_number", "score is inf"),
    ('{"ask_id":"a000001","score":1' + "0" * 400 + "}", "not_a_number", "finite"),
    ('{"ask_id":"a000001","score":"1"}', "not_a_number", "score is '1'"),
    ('{"ask_id":"a000001","score":true}', "not_a_number", "score is True"),
    ('{"ask_id":"a000001","score":[1]}', "not_a_number", "score is [1]"),
    ('{"ask_id":"a000001","score":1.001}', "out_of_range", "expected 0 to 1, as declared"),
    ('{"ask_id":"a000001","score":-0.5}', "out_of_range", "score is -0.5"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG)
def test_a_wrong_line_is_refused_with_its_code_and_the_others_count(session, line, code, words):
    good = '{"ask_id":"a000002","score":0.5,"cost_usd":0.002,"status":"ok"}'
    reply = session.tell([good, "", line])
    assert (reply.accepted, reply.already_recorded, reply.n_pending) == (1, 0, 4)
    (refused,) = reply.rejected
    assert (refused.line, refused.code) == (3, code)
    assert words in refused.message and "\n" not in refused.message
    json.dumps(reply.as_json()).encode()
    assert session.tell([good]).already_recorded == 1


def test_an_answered_ask_keeps_its_first_score(session):
    first = {"ask_id": "a000001", "score": 1}
    reply = session.tell([first, first, {"ask_id": "a000001", "score": 0}, {**first, "score": None, "status": "error"}])
    assert (reply.accepted, reply.already_recorded) == (1, 1)
    assert [(line.line, line.code) for line in reply.rejected] == [(3, "conflict"), (4, "conflict")]
    assert reply.rejected[0].message.startswith("a000001 was answered before with score 1, now with score 0")
    again = session.tell(lines([{"ask_id": "a000001", "score": 1.0}]).splitlines())
    assert (again.accepted, again.already_recorded, again.rejected) == (0, 1, ())


def test_a_cell_may_be_named_instead_of_its_ask(session):
    ask = session.ask(reissue=True).asks[2]
    cell = {"model_id": ask.model_id, "item_id": ask.item_id, "generation_id": 0, "score": 1}
    assert session.tell([cell]).accepted == 1
    assert session.tell([cell, {"ask_id": ask.ask_id, "score": 1}]).already_recorded == 2
    assert session.tell([{**cell, "score": 0}]).rejected[0].code == "conflict"


def test_nothing_accepted_leaves_the_journal_as_it_is(session, tmp_path):
    journal = tmp_path / "sessions" / "s" / "journal.jsonl"
    before = journal.read_bytes()
    assert session.tell([]).as_json() == {"accepted": 0, "already_recorded": 0, "rejected": [], "n_pending": 5}
    session.tell(["nonsense"])
    assert journal.read_bytes() == before


def test_one_object_or_a_whole_text_may_be_told(session):
    assert session.tell({"ask_id": "a000001", "score": 1}).accepted == 1
    text = '{"ask_id":"a000002","score":1}\n{"ask_id":"a000003","score":1}\n'
    assert (session.tell(text).accepted, session.tell(text.encode()).already_recorded) == (2, 2)


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(session):
    told = b'\xef\xbb\xbf{"ask_id":"a000001","score":1}\r\n{"ask_id":"a000002","score":1}\r\n'.split(b"\n")
    assert session.tell(told).accepted == 2
