"""What commands show: a report per record."""
