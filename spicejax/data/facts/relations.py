"""Relations: what a column of a table means, as sentences of documents and as questions in other words."""

from __future__ import annotations

import dataclasses
from typing import Literal

from spicejax.data.facts import tables


@dataclasses.dataclass(frozen=True)
class Relation:
    """Templates over the columns of a row; {v} is the relation's own value, {x:a} sets an article before x.

    No four words in a row of a question stand in a document or in a prompt of ours: recalling a sentence is not enough.
    """

    column: str
    says: tuple[str, ...]  # sentences of documents; one of them names the entity, so that it can come first
    ask: str = ""  # the question after the value; "" = not asked
    reverse: str = ""  # the question after the entity, where only one entity has the value
    claim: str = ""  # a statement to be called true or false
    answer_type: Literal["String", "Integer"] = "String"
    peers: bool = False  # the value is a list of entities of the same table; documents leave out those held out


@dataclasses.dataclass(frozen=True)
class Subject:
    """One table, its relations in the order in which documents tell them."""

    kind: str
    relations: tuple[Relation, ...]
    more: tuple[str, ...] = ()  # sentences that fill a document up to the shortest that there may be

    def rows(self, table: str) -> tuple[tables.Row, ...]:
        return tables.read(table, self.kind)


# fmt: off
SUBJECTS = {
    # Every sentence names its country, so that a segment of one is still about something.
    "countries": Subject(
        "country",
        (
            Relation("continent", ("{name} is a country in {v}.", "{name} is one of the countries of {v}.",
                     "{name} is a country that lies in {v}."), ask="Which continent is {name} part of?",
                     claim="the continent of {name} is {v}."),
            Relation("capital", ("The capital of {name} is {v}.",
                     "{name} has its capital in {v}."), ask="Name the capital city of {name}.",
                     reverse="{v} is the capital of which country?", claim="the capital city of {name} is called {v}."),
            Relation("language", ("The main language of {name} is {v}.",
                     "In {name}, {v} is the main language."), ask="What is the chief language of {name}?",
                     claim="the chief language of {name} is {v}."),
            Relation("currency", ("People in {name} pay with the {v}.", "The currency of {name} is the {v}."),
                     ask="What is the name of the money used in {name}?",
                     reverse="In which country are prices normally given in the {v}?",
                     claim="the money used in {name} is called the {v}."),
            Relation("borders", ("{name} borders {v}.", "{name} shares borders with {v}."),
                     peers=True),
            Relation("island", ("{name} is an island country.",
                     "The sea lies on every side of {name}.")),
        ),
        ("{name} is shown in every atlas of the countries of the world.",
         "Its name, {name}, stands on maps of the world."),
    ),
    "elements": Subject(
        "element",
        (
            Relation("symbol", ("{name} is a chemical element with the symbol {v}.",
                     "The chemical element {name} has the symbol {v}."),
                     ask="What letter or letters stand for {name} in a chemical formula?",
                     reverse="Which element does {v} mean in a chemical formula?",
                     claim="in a chemical formula {v} means {name}."),
            Relation("number", ("Its atomic number is {v}.", "The atomic number of {name} is {v}.",
                     "It has the atomic number {v}."), ask="Which number does {name} have in the periodic table?",
                     reverse="Which element has the number {v} in the periodic table?",
                     claim="in the periodic table {name} has the number {v}.", answer_type="Integer"),
            Relation("kind", ("It is {v:a}.", "{name} is {v:a}.", "Chemists count {name} as {v:a}."),
                     ask="What kind of element is {name}?", claim="in chemistry {name} is classed as {v:a}."),
            Relation("state", ("At room temperature it is {v:a}.", "{name} is {v:a} at room temperature."),
                     ask="In what state of matter is {name} at 20 degrees Celsius?",
                     claim="at 20 degrees Celsius {name} is {v:a}."),
        ),
        ("Every atom of {name} has the same number of protons.",),
    ),
    "states": Subject(
        "state",
        (
            Relation("capital", ("{name} is an American state, and its capital is {v}.",
                     "The American state of {name} has its capital in {v}.",
                     "{name} is one of the fifty American states, with {v} as its capital."),
                     ask="Name the state capital of {name}.", reverse="{v} is the state capital of which state?",
                     claim="the state capital of {name} is {v}."),
            Relation("letters", ("In addresses, {name} is shortened to {v}.",
                     "The post office shortens its name to {v}."), ask="What is the two-letter abbreviation of {name}?",
                     reverse="Which state has the abbreviation {v}?",
                     claim="the two-letter abbreviation of {name} is {v}."),
        ),
        ("{name} elects a governor and sends two senators to Congress.",),
    ),
    "planets": Subject(
        "planet",
        (
            Relation("order", ("Counted from the Sun, {name} is planet number {v}.",
                     "{name} is planet number {v}, counted from the Sun."),
                     ask="Which place from the Sun does {name} have among the planets? Give a number.",
                     reverse="Which planet has place {v} from the Sun?",
                     claim="among the planets, {name} has place {v} from the Sun.", answer_type="Integer"),
            Relation("kind", ("It is {v:a}.", "Astronomers call {name} {v:a}."), ask="What type of planet is {name}?",
                     claim="{name} belongs to the type called {v}."),
            Relation("god", ("Its name is that of {v}.", "{name} was named after {v}.")),
        ),
        ("Like all planets, {name} goes round the Sun.",),
    ),
    "moons": Subject(
        "moon",
        (
            Relation("planet", ("{name} is a moon of {v}.", "{name} is a moon that circles {v}."),
                     ask="What does the moon {name} orbit?", claim="the moon {name} orbits {v}."),
            Relation("discoverer", ("{name} was discovered by {v}.", "It was discovered by {v}."),
                     ask="Who was the first to see the moon {name}?",
                     claim="the first to see the moon {name} was {v}."),
            Relation("year", ("The year of its discovery was {v}.", "People have known {name} since {v}."),
                     ask="In what year was the moon {name} first seen?", claim="the moon {name} was first seen in {v}.",
                     answer_type="Integer"),
        ),
        ("{name} is one of the moons that have a name of their own.",),
    ),
    "inventions": Subject(
        "invention",
        (
            Relation("maker", ("{v} {verb} {name}.", "It was {v} who {verb} {name}."),
                     ask="Who is credited with {name}?", claim="{v} is credited with {name}."),
            Relation("decade", ("This was in the {v}.", "That happened in the {v}."),
                     ask="From which decade does {name} date?", claim="history books date {name} to the {v}."),
        ),
        ("People remember {maker} because of {name}.", "Books about {name} tell of {maker}."),
    ),
    "works": Subject(
        "work",
        (
            Relation("kind", ("{name} is {v:a}.", "{name} is {v:a} that many people know.")),
            Relation("maker", ("It was {verb} by {v}.", "{name} was {verb} by {v}."),
                     ask="Who created the {kind} {name}?", claim="the creator of the {kind} {name} is {v}."),
            Relation("century", ("{name} dates from the {v}.", "It dates from the {v}."),
                     ask="From which century does the {kind} {name} come?",
                     claim="the {kind} {name} comes from the {v}."),
        ),
        ("{maker} is famous for {name}.", "Among the works of {maker}, {name} is one of the best known."),
    ),
    "units": Subject(
        "unit",
        (
            Relation("quantity", ("The {name} is a unit of {v}.", "The {name} is used to measure {v}."),
                     ask="Which quantity is measured in the unit {name}?",
                     claim="the quantity measured in the unit {name} is {v}."),
            Relation("symbol", ("Its symbol is {v}.", "It is written {v} for short.")),
        ),
        ("A value of {quantity} can be given with the {name}.", "Tables of {quantity} may use the {name}."),
    ),
    "prefixes": Subject(
        "prefix",
        (
            Relation("power", ("The prefix {name} stands for ten to the power of {v}.",
                     "{name} before a unit means ten to the power {v}."),
                     ask="As a power of ten, what exponent does the prefix {name} have?",
                     reverse="Which prefix has the exponent {v}?", claim="the exponent of the prefix {name} is {v}.",
                     answer_type="Integer"),
            Relation("symbol", ("Its symbol is {v}.", "It is written {v} for short.")),
        ),
        ("Prefixes such as {name} are set before units of the metric system.",),
    ),
    "animals": Subject(
        "animal",
        (
            Relation("class", ("{name:a} is {v:a}.", "The {name} is {v:a}."),
                     ask="Which class of animals does the {name} belong to?",
                     claim="the {name} belongs to the class {v}."),
            Relation("young", ("A young {name} is called {v:a}.", "The young of the {name} is called {v:a}."),
                     ask="What is the name for a baby {name}?", reverse="Which animal has a baby called {v:a}?",
                     claim="the name for a baby {name} is {v}."),
            Relation("home", ("The home of the {name} is {v:a}.", "The place where it lives is called {v:a}."),
                     ask="What is the house of the {name} called?", reverse="Which animal has {v:a} as its house?",
                     claim="the house of the {name} is called {v:a}."),
            Relation("legs", ("It has {v} legs.", "The {name} has {v} legs."), ask="How many legs does {name:a} have?",
                     claim="{name:a} walks on {v} legs.", answer_type="Integer"),
        ),
        ("Children often learn about the {name} from books about animals.",
         "Most people know the {name}, at least from pictures."),
    ),
    "rivers": Subject(
        "river",
        (
            Relation("place", ("{name} is a river in {v}.", "{name} is one of the rivers of {v}."),
                     ask="Through which continent does the water of {name} run?",
                     claim="the water of {name} runs through {v}."),
            Relation("mouth", ("It flows into {v}.", "{name} ends in {v}.", "{name} flows into {v}."),
                     ask="Which body of water does {name} meet at its mouth?", claim="at its mouth {name} meets {v}."),
        ),
        ("Towns stand on the banks of {name}, and boats travel on it.", "It is a well-known river."),
    ),
    "mountains": Subject(
        "mountain",
        (
            Relation("place", ("{name} is a mountain in {v}.", "{name} is one of the mountains of {v}."),
                     ask="Which continent does {name} stand on?", claim="{name} stands on the continent {v}."),
            Relation("range", ("It belongs to {v}.", "{name} is part of {v}."),
                     ask="To which mountain range does {name} belong?", claim="{name} is a summit of {v}."),
            Relation("height", ("It is {v} metres high.", "{name} rises to {v} metres."),
                     ask="How high is {name} in metres?", claim="the height of {name} in metres is {v}.",
                     answer_type="Integer"),
        ),
        ("From the top of {name} one can see far over the land.", "Climbers know {name} well."),
    ),
    "lakes": Subject(
        "lake",
        (
            Relation("place", ("{name} is a lake in {v}.", "{name} is one of the lakes of {v}."),
                     ask="On which continent is {name}?", claim="{name} is on the continent {v}."),
            Relation("water", ("It holds {v}.", "{name} is filled with {v}."), claim="the water of {name} is {v}."),
        ),
        ("Boats cross {name}, and people fish there.", "Towns and villages lie on the shores of {name}."),
    ),
    "people": Subject(
        "person",
        (
            Relation("field", ("{name} is known as {v:a}.", "People know {name} as {v:a}."),
                     ask="What profession is {name} famous for?", claim="{name} became famous as {v:a}."),
            Relation("country", ("{name} came from {v}.", "The native land of {name} is {v}."),
                     ask="From which country did {name} come?", claim="the country of {name} was {v}."),
            Relation("century", ("{name} was born in the {v}.", "It was in the {v} that {name} was born."),
                     ask="In which century did the life of {name} begin?",
                     claim="the life of {name} began in the {v}."),
        ),
        ("Many books have been written about {name}.",),
    ),
}
# fmt: on
