"""Numbers with proven digits: exact fractions, and balls (a midpoint and a radius) that hold what is not exact."""
