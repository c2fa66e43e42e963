"""What `grad` has beyond value and gradient at one point."""
