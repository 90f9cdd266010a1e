"""ANS-GT: the model, tables of pairs, proximities, coarsening."""
