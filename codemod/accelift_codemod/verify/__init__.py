"""Proving on the user's own script that a conversion changed nothing.

`runs` runs the original and the converted script under the runtime's recorder, in scratch copies of the project
(`scratch`); `recording` reads what was recorded; `training`, `data`, `outputs` and `processes` each answer questions
about a pair of recordings; `causes` says what may be behind a difference; `proof` puts it together.
"""
