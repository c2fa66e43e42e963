"""What the page has besides the walk: to change values and see what follows, to descend, to ask why, to share."""
