"""The data of a fit, opened: in memory, or on a cluster."""
