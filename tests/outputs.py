"""Texts that a model could write, at random from a seed: pieces of games' forms, of markup, of scripts, in ruins."""

import random

# Forms of the games, numbers and units, control tokens of templates and what looks like them, characters that break
# readers, words
_TEXT = (
    "<question>¦</question>¦<answer>¦</answer>¦<search>¦</search>¦<information>¦</information>¦"
    "<|begin_of_query|>¦<|end_of_query|>¦<|begin_of_documents|>¦<think>¦</think>¦### ¦#1¦#2:¦#99¦```python\n¦"
    "```input\n¦```output\n¦```message\n¦```¦def f(x):\n    return x\n¦Answer: ¦answer:¦\\boxed{¦\\boxed¦"
    '\\text{¦\\frac{¦\\frac12¦\\sqrt[¦\\left(¦\\right)¦\\begin{pmatrix}¦\\\\¦{"question": "¦'
    '", "answer": "¦"}¦{¦}¦[¦]¦, ¦"¦\\¦\\u¦\\ud800¦null¦true¦NaN¦"multiple_choice_question"¦'
    '"suitable_for_mcq": true¦"best_answer_type": "Integer"¦A) ¦(B)¦C.¦D:¦1¦0¦-¦+¦.¦,¦/¦%¦$¦^¦*¦e¦E99999¦'
    "1e9999¦10**10**10¦1/0¦½¦12,345.60¦1.2.3¦km/h¦°C¦π¦∞¦≤¦−¦三¦٣¦Ⅷ¦ and ¦; ¦x = ¦2 < x <= 3¦(1, 2]¦"
    "<|im_start|>¦<|im_end|>¦<|endoftext|>¦<|eot_id|>¦<start_of_turn>¦<end_of_turn>¦[INST]¦<s>¦</s>¦"
    "<tool_call>¦<0x0A>¦▁¦Ġ¦<|¦|>¦{{¦}}¦{%¦{document}¦{question}¦%s¦${x}¦{0}¦\x00¦\x1b[2J¦\x7f¦\x85¦\u2028¦"
    "\u200b¦\u202e¦\u2066¦\ufeff¦\ufffd¦\ud83d¦\udc00¦é¦ﬁ¦ß¦İ¦🧑\u200d🚀¦<script>alert(1)</script>¦<!--¦]]>¦"
    "&amp;¦javascript:¦Paris¦paris¦the ¦Zürich¦yes¦No¦Who ¦wrote ¦?¦!¦ ¦\n¦\r\n¦\t¦\n\n¦==¦=="
)
PIECES = [*_TEXT.split("¦"), "9" * 400, "e\u0301" * 9, "\u0327" * 40]


def output(rng: random.Random) -> str:
    """One text, of a piece to some thousand; one in fifty repeats a piece for long, as models that fail do."""
    kind = rng.random()
    if kind < 0.02:
        return rng.choice(PIECES) * rng.randint(100, 3000)
    if kind < 0.04:
        one, other = rng.choice(PIECES), rng.choice(PIECES)
        count = rng.randint(100, 2000)
        return one * count + other * count
    text = "".join(rng.choice(PIECES) for _ in range(1 + int(rng.expovariate(1 / 12))))
    return text[: rng.randrange(1 + len(text))] if kind < 0.2 else text
