"""What people see: named queries over the published tables, figures, tables, verdict sentences and the HTML report.

Everything here reads the published database through a connection it is handed; nothing is computed that a table does
not hold, and nothing is written but HTML.
"""
