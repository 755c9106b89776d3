"""The database: engine, transactions, tables and column types."""
