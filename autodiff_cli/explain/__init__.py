"""What happened at a point, and why: the trace of both passes, its warnings, its steps in words, its accuracy."""
