"""The server of `autodiff serve`: who may ask (`guard`), what is answered (`application`), who computes (`worker`)."""
