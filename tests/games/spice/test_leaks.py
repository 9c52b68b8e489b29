"""An answer that stands in its question, as data or as the answer."""

import pytest

from spicejax.games.spice.leaks import leaks


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("What is 6 times 7 (answer: 42)?", "42", "Integer"),
        ("Is the total 42.0 or another number?", "42", "Integer"),
        ("Did Columbus sail in 1492?", "1492", "Integer"),
        ("The Nile is 6,650 km long. How long is the Nile?", "6650", "Integer"),
        ("The river, 6650 km long, is how many km long?", "6650", "Integer"),
        ("If a day has 24 hours, how many hours has a day?", "24", "Integer"),
        ("Let r = 7 cm. What is r?", "7", "Integer"),
        ("She is 65 years old, and 65 + 7 = 72. How old will she be in 7 years?", "72", "Integer"),
        ("Let f(x) = x^2 + 1. What is f(x)?", "x^2 + 1", "Expression"),
        ("Paris is the capital of France. What is the capital of France?", "Paris", "String"),
        ("The capital is Paris; name it.", "Paris", "String"),
        ("Which metal with the symbol Fe is called iron?", "iron", "String"),
        ("Is Canberra the capital of Australia?", "Canberra", "String"),
    ],
)
def test_answers_that_are_given_away(question, answer, kind):
    assert leaks(question, answer, kind)


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("If x + 2 = 4, what is x?", "2", "Integer"),
        ("Given y = 4 and x + y = 8, what is x?", "4", "Integer"),
        ("If y + 3 x 5 = 22 and z = y + 15, what is z?", "22", "Integer"),
        ("If 12 x 5 = 6 x n, what is n - 4?", "6", "Integer"),
        ("If 10 / 2 = 5 - k, what is k + 5?", "5", "Integer"),
        ("Which is right, 6 x 7 = 42 or 6 x 7 = 48?", "42", "Integer"),
        ("If x^2 = 1 and x > 0, what is x?", "1", "Integer"),
        ("The sum of x and 2 is 4. What is x?", "2", "Integer"),
        ("What is 100 - 50?", "50", "Integer"),
        ("A square has sides of 4 cm. How many sides has a square?", "4", "Integer"),  # `of`: no value of the square
        ("Is x42 a name, or how many letters has it?", "42", "Integer"),
        ("Ann has 5 apples, buys 5 and eats 5. How many are left?", "5", "Integer"),
        ("What is the derivative of e^x?", "e^x", "Expression"),
        ("Which is larger, Jupiter or Saturn?", "Saturn", "String"),
        ("Is the Amazon or the Nile the longer river?", "Nile", "String"),
        ("Ann is older than Bob. Bob is older than Cleo. Who is the oldest?", "Ann", "String"),
        ("What is the official language of French Guiana?", "French", "String"),
        ("Who wrote Frankenstein?", "Mary Shelley", "String"),
        ("Which of the planets Mars and Venus is nearer to the Sun?", "Venus", "String"),
        ("Choose the densest: copper, iron, gold.", "gold", "String"),
        ("Ann beats Bob. Bob beats Cleo. Who wins among Ann, Bob and Cleo?", "Ann", "String"),
    ],
)
def test_answers_that_are_data_choices_or_cast(question, answer, kind):
    assert not leaks(question, answer, kind)
