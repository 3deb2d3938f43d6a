"""Where documents are delivered to: a directory, a webhook, object storage. Each takes a parcel, or says why not.

Which documents go where, in which order and how often belongs to tally.services.deliver.
"""
