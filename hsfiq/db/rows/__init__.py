"""What every answer reads, as plain rows: SQLAlchemy's objects take several times as long."""
