"""What people see: diagnostics with their source line, resource reports, tables for the terminal."""
