"""What builds and holds the book together; none of it is part of the package ``uqhelpers``."""
