"""Tuning: named surfaces of a pack, searched within bounds, scored by replay alone, proposed to a person.

- `measuring`: what one recorded run tells about a pack;
- `scoring`: what many of them come to, and how sure that is;
- `frozen`: everything that is no surface is as it was;
- `guardrails`: the floors, and what may not get worse, surface by surface;
- `search`: optuna proposes values, replay says what they are worth;
- `proposal`, `edits`: what a person is shown: a diff, expected transcripts, records, scores;
- `acceptance`: a person applies it. Nothing else does.
"""
