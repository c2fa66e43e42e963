"""The passes that make a formula readable, in the order in which `readable` calls them."""
