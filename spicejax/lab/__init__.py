"""Studies: the papers' ablations over seeds, with intervals, beside what the papers found."""
