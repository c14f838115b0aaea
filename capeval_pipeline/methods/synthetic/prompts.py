"""Prompts filled from templates, so that a made-up benchmark reads like a real one and its topics show in the words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter

import numpy as np
from numpy.typing import NDArray

_MAX_DRAWS = 200


@dataclass(frozen=True)
class PromptTopic:
    """A topic's name, its sentence templates with {slots}, and the words each slot may take."""

    name: str
    templates: Sequence[str]
    slots: Mapping[str, Sequence[str]] = field(default_factory=dict)


def fill_prompts(
    topics: Sequence[PromptTopic],
    topic_of_item: NDArray[np.int64],
    *,
    openings: Sequence[str],
    rng: np.random.Generator,
) -> list[str]:
    """One prompt an item, all different: an opening, then a template of the item's topic with its slots filled.

    topic_of_item : (n_items,) index into `topics`

    Raises ValueError where a topic's templates cannot give enough different prompts.
    """
    prompts: list[str] = []
    taken: set[str] = set()
    for topic_index in topic_of_item:
        topic = topics[int(topic_index)]
        for _ in range(_MAX_DRAWS):
            prompt = f"{_pick(openings, rng)} {_fill(topic, rng)}".strip()
            if prompt not in taken:
                break
        else:
            raise ValueError(f"topic {topic.name!r} gave no new prompt in {_MAX_DRAWS} draws; it needs more templates")
        taken.add(prompt)
        prompts.append(prompt)
    return prompts


def _fill(topic: PromptTopic, rng: np.random.Generator) -> str:
    template = _pick(topic.templates, rng)
    slots = [name for _, name, _, _ in Formatter().parse(template) if name]
    return template.format(**{name: _pick(topic.slots[name], rng) for name in slots})


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]


@dataclass(frozen=True)
class ConversionQuestion:
    """A question about units with its one right answer, and the topic (the kind of unit) it belongs to."""

    question: str
    answer: str
    topic: str


def make_conversion_questions(n_questions: int, *, rng: np.random.Generator) -> list[ConversionQuestion]:
    """Different conversion questions with whole-number answers. Raises ValueError where there are too few."""
    questions: list[ConversionQuestion] = []
    taken: set[str] = set()
    for _ in range(_MAX_DRAWS * max(n_questions, 1)):
        if len(questions) == n_questions:
            return questions
        topic, big, small, factor = EVERYDAY_UNITS[int(rng.integers(len(EVERYDAY_UNITS)))]
        amount = int(rng.integers(3, 240))
        wording = int(rng.integers(3))
        if wording == 0:
            question, value = f"How many {small} are there in {amount} {big}?", amount * factor
        elif wording == 1:
            question, value = f"A label says {amount} {big}. Write the same amount in {small}.", amount * factor
        else:
            question, value = f"Convert {amount * factor} {small} to {big}.", amount
        if question not in taken:
            taken.add(question)
            questions.append(ConversionQuestion(question, str(value), topic))
    raise ValueError(f"only {len(questions)} different conversion questions were found, not {n_questions}")


EVERYDAY_UNITS: tuple[tuple[str, str, str, int], ...] = (
    ("time", "hours", "minutes", 60),
    ("time", "days", "hours", 24),
    ("time", "weeks", "days", 7),
    ("length", "metres", "centimetres", 100),
    ("length", "kilometres", "metres", 1000),
    ("length", "feet", "inches", 12),
    ("weight", "kilograms", "grams", 1000),
    ("weight", "stone", "pounds", 14),
    ("weight", "pounds", "ounces", 16),
    ("volume", "litres", "millilitres", 1000),
    ("volume", "gallons", "pints", 8),
    ("volume", "cups", "tablespoons", 16),
    ("angle", "full turns", "degrees", 360),
    ("data", "bytes", "bits", 8),
    ("data", "kibibytes", "bytes", 1024),
)

_PLAN = ("Starter plan", "Team plan", "Business plan", "student plan", "annual plan", "family plan")
_DEVICE = ("phone", "laptop", "tablet", "work computer", "smart watch", "television", "second monitor")
_TIME = (
    "yesterday",
    "this morning",
    "last Tuesday",
    "three days ago",
    "an hour ago",
    "two weeks ago",
    "on Friday night",
)
_PRODUCT = (
    "desk lamp",
    "standing desk",
    "wireless headset",
    "coffee grinder",
    "rain jacket",
    "travel backpack",
    "label printer",
    "garden hose",
    "office chair",
    "water bottle",
)
_CITY = ("Lisbon", "Tampere", "Graz", "Cork", "Valparaíso", "Mombasa", "Bergen", "Halifax", "Ghent", "Adelaide")

SUPPORT_DESK: tuple[PromptTopic, ...] = (
    PromptTopic(
        "billing",
        (
            "The invoice of {time} charges {amount} for the {plan}, but the price list says less. "
            "Explain the difference.",
            "A customer was charged twice, {amount} each, for the {plan} {time}. Draft the reply "
            "and say when the refund "
            "arrives.",
            "How is the bill prorated when someone moves from the {plan} to the {plan2} in the middle of a month?",
            "The card was declined {time} although the balance is enough. The invoice is over {amount}. What can the "
            "customer check first?",
            "Which tax line belongs on an invoice of {amount} for the {plan} when the buyer is in {city}?",
        ),
        {
            "plan": _PLAN,
            "plan2": _PLAN,
            "time": _TIME,
            "city": _CITY,
            "amount": ("19.90 euros", "48 dollars", "7 pounds", "120 euros", "260 dollars", "15.50 pounds"),
        },
    ),
    PromptTopic(
        "sign-in",
        (
            "The one-time code never reaches the {device}. The customer last signed in {time}. List the steps, most "
            "likely cause first.",
            "Somebody lost the {device} that held the authenticator app. How can they regain access without a backup "
            "code?",
            "Signing in on the {device} ends with '{error}' since {time}. Password reset did not help. What next?",
            "A manager wants to sign out a former colleague from every {device} at once. Where is that setting?",
            "Single sign-on worked until {time}; now the {device} shows '{error}'. Ask the two "
            "questions that narrow it "
            "down.",
        ),
        {
            "device": _DEVICE,
            "time": _TIME,
            "error": (
                "session expired",
                "unknown account",
                "too many attempts",
                "certificate not trusted",
                "access denied",
            ),
        },
    ),
    PromptTopic(
        "delivery",
        (
            "The parcel with the {product} has been in {city} since {time} and does not move. What "
            "do we tell the buyer?",
            "Tracking says the {product} was handed over {time}, the buyer in {city} has nothing. Write a calm answer.",
            "Can the address of an order for a {product} be changed to {city} after it was packed {time}?",
            "The courier returned the {product} from {city} as undeliverable. Who pays for sending it again?",
            "A buyer needs the {product} in {city} two days earlier than promised. Which options "
            "exist and what do they "
            "cost?",
        ),
        {"product": _PRODUCT, "city": _CITY, "time": _TIME},
    ),
    PromptTopic(
        "returns",
        (
            "The {product} arrived {damage}. The buyer wants a replacement, not money. Walk them through the return.",
            "Is a {product} that was used once and is now {damage} still covered by the {days}-day return window?",
            "A gift receipt for a {product} was lost. The giver paid {time}. How can the receiver return it?",
            "The return label for the {product} expired {time}. Write the message with the new label.",
            "Decide from the policy: {product}, bought {days} days ago, {damage}, opened box. "
            "Refund, repair or refuse?",
        ),
        {
            "product": _PRODUCT,
            "time": _TIME,
            "days": ("14", "30", "45", "60", "90"),
            "damage": (
                "scratched",
                "with a missing screw",
                "in the wrong colour",
                "cracked along one side",
                "without its manual",
            ),
        },
    ),
    PromptTopic(
        "set-up",
        (
            "The {device} finds the {gadget} but pairing stops at {percent} percent. Firmware was updated {time}.",
            "Give five steps to connect a {gadget} to a {device} when the router hides its network name.",
            "After the update {time} the {gadget} restarts every few minutes. Which log should the customer send us?",
            "The {gadget} shows a blinking {colour} light. Translate that into plain words and one next step.",
            "Can one {gadget} be used with a {device} and another {device2} at the same time? Explain the limit.",
        ),
        {
            "device": _DEVICE,
            "device2": _DEVICE,
            "gadget": (
                "thermostat",
                "doorbell camera",
                "wireless speaker",
                "air sensor",
                "label printer",
                "smart plug",
            ),
            "time": _TIME,
            "percent": ("12", "45", "80", "99"),
            "colour": ("amber", "red", "blue", "white"),
        },
    ),
    PromptTopic(
        "privacy",
        (
            "A customer in {city} asks for a copy of everything stored about them since {time}. "
            "What must the export hold?",
            "Which of these may an agent read aloud on the phone: {field}, {field2}, order number? "
            "Give the reason for each.",
            "Delete the account but keep the invoices: is that allowed when the customer lives in "
            "{city}? Answer briefly.",
            "The {field} of a customer was sent to the wrong address {time}. List who has to be told, and by when.",
            "How long do we keep the {field} after the {plan} has ended, and where is that written down?",
        ),
        {
            "city": _CITY,
            "time": _TIME,
            "plan": _PLAN,
            "field": ("date of birth", "phone number", "chat transcript", "delivery address", "bank details"),
            "field2": ("e-mail address", "last four card digits", "full name", "home address", "voice recording"),
        },
    ),
)
