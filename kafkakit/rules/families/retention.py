"""R: rules of retention and segments."""
