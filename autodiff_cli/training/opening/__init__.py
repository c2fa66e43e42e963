"""The data of a fit, opened: in memory, streamed, or on a cluster."""
