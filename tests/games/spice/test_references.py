"""What refers to a text that the reader does not have, and what only sounds like it."""

import pytest

from spicejax.games.spice.references import unseen_reference


@pytest.mark.parametrize("question", [
    "According to the passage, who won?", "Who won according to this short article?", "In the text above, who won?",
    "Who is the first to speak in the excerpt?", "What does the text say of the vote?",
    "Why does the author reject the plan?", "What is the author's main argument?",
    "What is the purpose of the document?", "Which of the two documents above is older?",
    "The passage describes a flood. How deep was it?", "As shown in Figure 3, which curve rises?",
    "Table 2 lists four drugs. Which is the best?", "In the diagram above, which arrow is red?",
    "As stated above, who won?", "According to the table, how many ships sank?",
    "Which value is largest in the given table?", "In this study, how many patients were healed?",
    "Based on the information provided, who won?", "Who won?\nA) the one mentioned earlier\nB) Ann",
])  # fmt: skip
def test_unseen_texts_are_found(question):
    assert unseen_reference(question)


@pytest.mark.parametrize("question", [
    "What is the crossing number of the figure 8 knot?",
    "In which town was the author of Hamlet born?",
    "In the text editor vi, which key quits?",
    "Who signed the document that founded the UN?",
    "According to the report of the Warren Commission, who fired?",
    "Based on the analysis of variance, what is F?",
    "A document has 100 words. Which share of the document are 3 of them?",
    "In Walden, what does the author build?",
    'Read this passage: "The tide rose." Which noun in the passage is the subject?',
    "Use the following text.\nThe tide rose.\nWhat verb does the text have?",
    "A ball falls from 20 m. As described above, how long does it fall?",
    "A circle has radius 3. Based on the information given, what is its area?",
    "A skater draws a figure 8 in 9 s. How fast is she?",
    "How many seats has the table if 3 more make 7?",
    "On which side of Table Mountain lies the harbour?",
    "As mentioned in the Bible, how long did it rain?",
    "According to the following rule, a(n) = 2n, what is a(4)?",
    "How many authors wrote the Federalist papers?",
])  # fmt: skip
def test_texts_that_the_question_names_or_brings_are_fair(question):
    assert unseen_reference(question) is None
