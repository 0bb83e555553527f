"""The commands that read what is there and change no row."""
