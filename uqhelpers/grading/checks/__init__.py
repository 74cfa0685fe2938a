"""One module of checks an exercise, with the exercise's name."""
