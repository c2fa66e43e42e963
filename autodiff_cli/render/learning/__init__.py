"""A fit as a page that shows it learning."""
