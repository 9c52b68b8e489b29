"""Right answers in other writing, by kind and gold: what a rule against attacks must not refuse.

tests/score/test_verifiers.py, test_forms.py and test_answers.py have more than 200 further ones; none stands twice.
"""

RIGHT = {
    ("MCQ", "B"): ("\\textbf{B}", "b)", "[B]", "B) the Amazon.", "answer: B", "Choice B", "**Amazon**",
    "\\text{Amazon}", "AMAZON",
                   "\\(B\\)", "B. Amazon", "B:", "\\mathbf{(B)}", "Option: B"),
    ("Integer", "42"): ("$42$", "\\(42\\)", "42.", "+42", "**42**", "42 apples", "x = 42", "\\$42", "042", "4.2e1",
                        "4.2 \\times 10^1", "\\text{42 km}", "6 \\cdot 7", "n=42", "40 + 2", "126/3"),
    ("Integer", "-1250"): ("-1,250", "\u22121250", "-1250.0", "-1{,}250", "-1\\,250", "-1.25 \\times 10^3", "$-1250$"),
    ("Float", "2.5"): ("2.50", "5/2", "\\frac{5}{2}", "2 1/2", "2.5 kg", "+2.5", "\\dfrac{5}{2}", "25e-1", "2½",
    "$2.5$", "2.500000",
                       "x = 2.5", "250\\%", "\\text{2.5 m}"),
    ("Expression", "x^2-4"): ("(x-2)(x+2)", "-4+x^2", "x^{2} - 4", "x**2 - 4", "x\u00b2 - 4", "x \\cdot x - 4",
    "(x+2)(x-2)",
                              "\\left(x-2\\right)\\left(x+2\\right)", "y = x^2-4", "x^2 + (-4)", "$x^2-4$",
                              "\\frac{2x^2-8}{2}"),
    ("Expression", "\\frac{3}{4}"): ("0.75", "3/4", "\\frac{6}{8}", "\\tfrac34", "75\\%", ".75", "\\frac{-3}{-4}",
    "1 - \\frac{1}{4}"),
    ("Expression", "\\{1, 2\\}"): ("\\{2,1\\}", "{1, 2}", "1, 2", "2 \\text{ and } 1", "x = 1 \\text{ or } x = 2",
    "\\left\\{1, 2\\right\\}"),
    ("Expression", "(1, 2)"): ("1, 2", "\\left(1, 2\\right)", "(1,2)", "(x, y) = (1, 2)", "x = 1, y = 2",
    "\\left(\\frac{2}{2}, 2\\right)",
                               "x = 1 \\text{ and } y = 2"),
    ("Expression", "2\\pi"): ("2 \\pi", "2π", "\\pi \\cdot 2", "2*pi", "\\pi + \\pi", "\\frac{4\\pi}{2}"),
    ("String", "Marie Curie"): ("marie curie", "Marie  Curie", "\\text{Marie Curie}", "**Marie Curie**", "Marie Curie.",
                                '"Marie Curie"', "MARIE CURIE", "\\textbf{Marie Curie}", "Marie-Curie",
                                "\u201cMarie Curie\u201d"),
    ("String", "the Nile"): ("Nile", "The Nile", "nile.", "$\\text{Nile}$", "a Nile"),
    ("Boolean", "true"): ("True", "TRUE", "yes.", "\\text{True}", "**true**", "\\mathrm{true}", "$\\text{Yes}$", "YES",
    "true."),
    ("List", "3, 2, 1"): ("3; 2; 1", "(3, 2, 1)", "\\{3, 2, 1\\}", "[3,2,1]", "3, 2, and 1", "3.0, 2.0, 1.0",
    "$3, 2, 1$", "03, 02, 01"),
    ("List", "Paris, Rome"): ("paris, rome", "Paris and Rome", '["Paris", "Rome"]', "Paris; Rome",
    "\\text{Paris}, \\text{Rome}",
                              "[Paris, Rome]", "Paris,Rome", "paris, rome."),
}  # fmt: skip
# Of these the verifier refuses so many all the same; none is worth a rule
REFUSED = {("B", "[B]"), ("42", "\\text{42 km}"), ("2.5", "\\text{2.5 m}")}
