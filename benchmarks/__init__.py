"""What is claimed about speed, and published tables beside our own figures."""
