"""Parts of ANS-GT: tables of pairs, proximities, coarsening."""
