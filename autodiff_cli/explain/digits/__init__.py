"""How far numbers can be trusted: proven digits, the right ones where rounding has spoilt some, and checks."""
