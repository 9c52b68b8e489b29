"""What a work folder tells people: curves, a text, a page with every task, and the page while a run goes on."""
