"""Documents that are made of bills and rated records: a page, a CSV, the rows of a FOCUS dataset.

Pure: what is handed in comes out in another form, and no amount is worked out again. Reading rows belongs to
tally.store, writing files to tally.services.
"""
