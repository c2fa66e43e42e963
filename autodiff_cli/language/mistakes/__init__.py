"""What is wrong with a text, in people's words: at the spot, what was expected, what may have been meant."""
