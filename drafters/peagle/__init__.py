"""P-EAGLE: EAGLE-3's layer drafts all tokens in one pass, with mask tokens."""
