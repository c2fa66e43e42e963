"""Rows on a cluster: Dask's distributed scheduler, whose workers keep the rows and compute what is folded over them."""
