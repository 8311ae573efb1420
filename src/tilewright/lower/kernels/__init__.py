"""What is no loop nest: reductions over rows, sorting, searching, elimination."""
