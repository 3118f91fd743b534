"""The page at `/` and what it asks: files, live events, small pictures, what a stream looks like from outside."""
