"""Who calls: how a request proves its identity. What an identity may do stands in the contract."""
