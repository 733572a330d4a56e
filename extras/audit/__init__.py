"""Whether a served engine keeps the target's distribution when it drafts."""
