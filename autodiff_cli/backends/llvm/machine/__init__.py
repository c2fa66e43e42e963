"""The text made machine code, for this processor, and run: over columns as they come, on all cores."""
