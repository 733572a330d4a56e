"""Audits a server: whether its texts keep the target's distribution when it drafts.

`audit` asks through a `client`, holds each text against what is `expected` of it, and bets on the
difference in `martingale`; `promises` are what a text shows by itself.
"""
