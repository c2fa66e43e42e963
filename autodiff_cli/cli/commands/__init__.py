"""The commands, each in a module of its own name, and the larger parts of `grad` and `trace`."""
