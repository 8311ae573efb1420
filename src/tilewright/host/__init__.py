"""Stand-ins for host-side packages that NKI scripts import next to nki."""
