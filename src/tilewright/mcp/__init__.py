"""The commands as tools of the Model Context Protocol: an oracle for programs that write kernels."""
