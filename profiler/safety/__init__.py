"""What is checked before an attach, and what is compared after a detach."""
