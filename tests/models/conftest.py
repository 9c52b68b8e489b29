"""The fixture that runs a test on every tiny model."""

import pytest
from tiny_models import CONFIGS

from spicejax.models.transformer import TransformerConfig


@pytest.fixture(params=list(CONFIGS), scope="module")
def cfg(request) -> TransformerConfig:
    return CONFIGS[request.param]
