"""Linear algebra on one thread: also in libraries that a step loads itself, in a process that loaded none before."""

import json
import os
import subprocess
import sys

import pytest

SHOW = """
import json, os
from threadpoolctl import threadpool_info
from capeval_pipeline.one_thread import one_thread
{before}
with one_thread():
    import scipy.linalg, sklearn.decomposition
    from sklearn.utils.extmath import randomized_svd
    inside = [entry["num_threads"] for entry in threadpool_info()]
print(json.dumps([inside, "OMP_NUM_THREADS" in os.environ]))
"""


@pytest.mark.parametrize("before", ["", "import numpy, scipy.linalg, sklearn.decomposition"])
def test_libraries_loaded_before_or_within_use_one_thread(before):
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(before=before)], env=environment, capture_output=True, text=True, check=True
    )
    inside, is_left = json.loads(done.stdout)
    assert len(inside) >= 2 and set(inside) == {1}
    assert not is_left
