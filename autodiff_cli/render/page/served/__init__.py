"""The pages of `autodiff serve`: boxes to type into, above the walk or alone."""
