"""Several systems in one table, with published figures beside them."""
