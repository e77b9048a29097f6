"""Why a model says what it says: Shapley values, importances, and its trees as text and tables."""
