"""What language models were asked, and what it cost. Each function folds the event of its name."""

from __future__ import annotations

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.budget import reserve_for_model, settle_model
from tercet.core.fold.base import changed, demand
from tercet.core.state import Asked, Replied, State


def model_asked(state: State, event: e.ModelAsked) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked already")
    demand(state, event, is_met=event.call == state.asked + 1, why=f"call {state.asked + 1} is due")
    return changed(
        state,
        asked=event.call,
        asking=Asked(call=event.call, prompt=event.prompt, tokens=event.tokens, cost=event.cost),
        used=reserve_for_model(state.used, event),
    )


def model_answered(state: State, event: e.ModelAnswered) -> State:
    asked = state.asking
    if asked is None or asked.call != event.call:
        demand(state, event, is_met=False, why=f"call {event.call} is not under way")
        raise AssertionError  # demand has raised
    booked = spent(state, asked, event.tokens_in + event.tokens_out, event.cost)
    if event.code:
        return booked
    reply = Replied(
        prompt=asked.prompt,
        model=event.model,
        answer=event.answer,
        blob=event.blob,
        tokens_in=event.tokens_in,
        tokens_out=event.tokens_out,
        cost=event.cost,
        cut=event.cut,
        latency=event.latency,
    )
    return changed(booked, replies=(*state.replies, reply))


def spent(state: State, asked: Asked, tokens: int, cost: int) -> State:
    """What was kept for a call is given back, and what it took is booked."""
    is_judging = state.phase is not Phase.PLAN and state.halted_from is not Phase.PLAN
    used = settle_model(state.used, asked, tokens, cost, "critic" if is_judging else "planner")
    return changed(state, asking=None, used=used)


def cut_off(state: State) -> State:
    """A call whose process is gone may have been paid for: all that was kept for it counts as used."""
    asked = state.asking
    return state if asked is None else spent(state, asked, asked.tokens, asked.cost)
