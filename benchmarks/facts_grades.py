"""What a model knows of the facts in spicejax/data/facts before any training, by relation and by table.

    python benchmarks/facts_grades.py [--config=spice_smollm2] [--rows=20] [--json]

Every relation's direct question is asked about up to `--rows` entities, as a plain chat without a request for a box:
once greedily, four times as the recipe samples. An answer counts wherever it stands in the text. A relation is graded
by the share of the sampled answers that hold it: known from 0.5, sometimes from 0.1, else unknown.

SmolLM2-135M-Instruct, --rows=16, sampled at temperature 0.7 (about 8 minutes on 2 shared CPU cores):

known: element_state 0.77, planet_kind 0.53
sometimes: lake_place 0.47, country_language 0.45, country_continent 0.44, animal_class 0.44, river_place 0.38,
  mountain_place 0.36, person_field 0.34, element_kind 0.31, mountain_range 0.30, element_symbol 0.27, work_century
  0.27, person_country 0.27, work_maker 0.25, country_capital 0.23, moon_planet 0.23, state_letters 0.22,
  unit_quantity 0.19, state_capital 0.14, river_mouth 0.14
unknown: animal_young 0.08, animal_home 0.06, invention_maker 0.05, invention_decade 0.03, animal_legs 0.03,
  person_century 0.03, element_number 0.02, moon_discoverer 0.02, country_currency 0.00, planet_order 0.00, moon_year
  0.00, prefix_power 0.00, mountain_height 0.00
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict

import jax

from spicejax import configs
from spicejax.data.facts import questions
from spicejax.data.facts.relations import SUBJECTS
from spicejax.generate import weights
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.run import build, lengths, resolve
from spicejax.text import tokens

SAMPLES, MAX_NEW = 4, 24
GRADES = ((0.5, "known"), (0.1, "sometimes"), (0.0, "unknown"))


def seated(config: str) -> Player:
    """The model of a recipe, as it is before training."""
    here = resolve.settled(resolve.with_world(configs.load(config)))
    voice = lengths.voices_of(here.cfg, tokens.load(here.cfg.model.path))[""]
    copy = weights.copier(here.model, here.sampler_mesh, here.cfg.sampler_weights)
    params = copy(build.load_model(here.cfg, here.mesh))
    return build.seat(weights.sampled(here.model), params, voice, Buckets(prompt=(96,), rows=64), here.sampler_mesh)


def holds(text: str, question: questions.Question) -> bool:
    """Whether one of the accepted answers stands in the text as words of their own, also in the plural."""
    accepted = (question["answer"], *question["aliases"])
    return any(re.search(rf"(?<!\w){re.escape(a)}s?(?!\w)", text, re.IGNORECASE) for a in accepted)


def asked(rows: int) -> list[questions.Question]:
    """The direct questions of every relation that has them."""
    found = []
    for name, subject in SUBJECTS.items():
        for relation in filter(lambda r: r.ask, subject.relations):
            found += [questions.direct(relation, row) for row in questions.askable(relation, subject.rows(name))[:rows]]
    return found


def known(player: Player, items: list[questions.Question], samples: int, settings: SamplerConfig) -> list[float]:
    """Share of the answers to each question that hold it."""
    answers = player.respond(
        [player.render([{"role": "user", "content": item["question"]}]) for item in items],
        samples=samples,
        first_row=[k * samples for k in range(len(items))],
        key=jax.random.key(0),
        settings=settings,
        max_new=MAX_NEW,
    )
    return [sum(holds(r.text, item) for r in rs) / samples for rs, item in zip(answers, items, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="spice_smollm2")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    player, items = seated(args.config), asked(args.rows)
    greedy = known(player, items, 1, SamplerConfig(temperature=0.0))
    sampled = known(player, items, SAMPLES, configs.load(args.config).sampler)
    groups: dict[str, list[list[float]]] = defaultdict(list)
    for item, *shares in zip(items, greedy, sampled, strict=True):
        for group in (item["category"], item["category"].partition("_")[0]):
            groups[group].append(shares)
    table = {}
    for group, pairs in groups.items():
        means = [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
        grade = next(word for least, word in GRADES if means[1] >= least)
        table[group] = {"questions": len(pairs), "greedy": means[0], "sampled": means[1], "grade": grade}
    if args.json:
        print(json.dumps(table, indent=1))
    print("| relation | questions | greedy | sampled | grade |\n|---|---|---|---|---|")
    for group, row in table.items():
        print(f"| {group} | {row['questions']} | {row['greedy']:.2f} | {row['sampled']:.2f} | {row['grade']} |")


if __name__ == "__main__":
    main()
