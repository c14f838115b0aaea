"""plotly.js as a page carries it: packed, and with its kinds of traces loaded when a figure needs them.

plotly.js defines some fifty kinds of traces (maps, 3D, …) of which a report draws three, and evaluating all of them
is most of what opening a page costs. The one list that loads them is turned into a list of loaders, `Plotly.later`,
which page.js calls until it has the kinds it draws. A plotly.js without that list stays as it is and loads everything.
"""

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib import resources

_EVERY_KIND = re.compile(r"([\w$]+)\.register\(\[((?:[\w$]+\(\),){19,}[\w$]+\(\))\]\)")


def load_kinds_later(script: str) -> str:
    """plotly.js with `core.register([bar(), box(), …])` replaced by `core.later=[bar,box,…]`.

    Anything but exactly one such list of twenty or more calls: the script as it is.
    """
    if len(_EVERY_KIND.findall(script)) != 1:
        return script
    return _EVERY_KIND.sub(lambda found: f"{found[1]}.later=[{found[2].replace('()', '')}]", script)


@cache
def plotly_script() -> bytes:
    """The script that a page unpacks and runs."""
    # the package data is read where it lies: importing plotly's Python side would take longer than a whole page
    text = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes().replace(b"\r\n", b"\n")
    return load_kinds_later(text.decode()).encode()


@cache
def packed_plotly() -> str:
    """The script as base64 of gzip, without a time stamp, so that pages repeat byte for byte."""
    return base64.b64encode(gzip.compress(plotly_script(), 9, mtime=0)).decode()


@cache
def plotly_digest() -> str:
    """Digest of the script."""
    return digest(plotly_script())


def digest(content: bytes) -> str:
    """Base64 of the SHA-256 of a script, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode()
