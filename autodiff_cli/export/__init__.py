"""Export of formulas and fitted models: the value and its derivatives as a function in another language."""
