"""What is no loop nest: sorting, searching, elimination."""
