"""Runtime: what makes the passes of a transformers model right and cheap.

`cached_model` is a model with the key-value cache of one text: feed tokens, drop or keep some of
them. Below it, `step` runs one pass, by the kind of cache: plain caches (`cache`, `passes`, `flat`,
`linear`), compiled passes of fixed sizes (`static`), encoder-decoders (`encoded`) and models that
are spread over several processes (`ranks`, `launch`). `ragged` and `text_tree` put several texts on
one cache, and `first_layers` makes a smaller model of a larger one.

It imports the contract. It knows no target, drafter or rule. Start with `cached_model`, then
`step`.
"""
