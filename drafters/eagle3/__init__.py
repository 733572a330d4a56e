"""EAGLE-3: one decoder layer on low, middle and high states of the target."""
