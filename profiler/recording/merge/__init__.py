"""Merge the files of several recordings into one."""
