"""List the recipes: spicejax configs [NAME] [--json]

Without a NAME: each with its first line. With one: what it is for, its command, what it needs and what to expect, and
with --json its fields as a run would write them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spicejax import config as configuration
from spicejax import configs
from spicejax.commands import Parser


def main(argv: Sequence[str]) -> None:
    """Print recipes."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("name", nargs="?", help="one of them")
    parser.add_argument("--json", action="store_true", help="print fields as JSON, a list for a chain")
    options = parser.parse_intermixed_args(argv)
    if options.name is None:
        texts = {name: configs.about(name).partition("\n")[0] for name in configs.names()}
        print(json.dumps(texts) if options.json else "\n".join(f"{name:<26}{text}" for name, text in texts.items()))
        return
    stages = configs.stages(options.name)
    fields = [configuration.to_json(cfg) for cfg in stages]
    print(json.dumps(fields, indent=1) if options.json else configs.about(options.name))
