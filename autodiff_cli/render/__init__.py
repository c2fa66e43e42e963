"""Records to something a person looks at, or a machine reads. No mathematics here."""
