"""The paper's experiments: tables, ablation, parameter study, scaling."""
