"""What shells are told: completion of command lines, the manual page."""
