"""How a process gets its memory: it starts itself again, once, as it was called."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
from spicejax import memory
print("started", flush=True)
memory.ask_for_huge_pages()
print(json.dumps([os.environ["GLIBC_TUNABLES"], sys.argv, sys.flags.utf8_mode]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's setting")
@pytest.mark.parametrize(("given", "expected", "starts"), [(None, "glibc.malloc.hugetlb=1", 2), ("", "", 1)])
def test_starts_again_once_with_the_same_arguments(tmp_path, given, expected, starts):
    """What the user set, even to nothing, stays."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    env = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"} | (
        {} if given is None else {"GLIBC_TUNABLES": given}
    )
    command = [sys.executable, "-X", "utf8", str(script), "a b", "--c=d"]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    assert out[:-1] == ["started"] * starts
    assert json.loads(out[-1]) == [expected, [str(script), "a b", "--c=d"], 1]
