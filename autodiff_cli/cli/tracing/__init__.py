"""What `autodiff trace` does besides: the walk key by key, and rows of data."""
