"""What people see of a run: live progress, logs, tables, pictures and films. Only reads what the other rooms made."""
