"""What happened at a point, and why: the trace of both passes, its warnings, and its steps in words."""
