"""What courses build by hand: `Value`, and networks of them."""
