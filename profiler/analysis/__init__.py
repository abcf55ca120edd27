"""The entrance to what readers make of recordings: the views of one, the difference of two."""
