"""Prices and pure rating: price versions, money, the rating of one record, and the bill as a document.

No input and no output: files are read and tables are written by tally.services.pricing. Millions of records are rated
by dbt in SQL; what is here is small and full of rules, and the reference that the SQL is tested against.
"""
