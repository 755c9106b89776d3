"""What is wrong with a server's database, files, proxy, clock and versions, and what repairs it."""
