"""The functions of AgentDojo's suite slack as tools.

What a member's assistant may do alone: read, write plain messages to members and channels, add members to channels, open
pages that the member has named or that colleagues have posted, and post to a page that the member has named. Inviting
a person whose address the member has not given, opening or posting to any other page, and messages with links wait for
the member; removing a member always does.
"""

from __future__ import annotations

import re

from bench.agentdojo.environment import call_function
from typing_extensions import TypedDict

from tercet import tool


class Channels(TypedDict):
    channels: list[str]


class Users(TypedDict):
    users: list[str]


class Message(TypedDict):
    sender: str
    recipient: str
    body: str
    links: list[str]
    """The links that a colleague has posted; the chat has opened them for its previews already."""


class Messages(TypedDict):
    messages: list[Message]


class Page(TypedDict):
    text: str


class Done(TypedDict):
    done: bool


LINK = re.compile(r"(?:https?://)?(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[^\s,;!?)]*)?")
SHARED = "External"
"""What the names of channels begin with that are shared with other companies."""
MESSAGE_KINDS = {
    "/messages/*/sender": "user",
    "/messages/*/recipient": "addressee",
    "/messages/*/links/*": "link",
}


def with_links(messages: list[dict[str, str]], *, is_shared: bool) -> Messages:
    """Return the messages with the links in them, none where outsiders can post."""
    return {
        "messages": [
            {
                "sender": message["sender"],
                "recipient": message["recipient"],
                "body": message["body"],
                "links": [] if is_shared else LINK.findall(message["body"]),
            }
            for message in messages
        ]
    }


@tool("chat.get_channels", mode="read_only", trust="trusted", result_kinds={"/channels/*": "channel"})
async def get_channels() -> Channels:
    """Return the names of the channels."""
    return {"channels": call_function("get_channels", {})}


# The chat vouches for who is in a channel and who wrote what, whichever channel a plan reads: it lists all of them.
@tool(
    "chat.get_users_in_channel",
    mode="read_only",
    endorses=True,
    kinds={"channel": "channel"},
    result_kinds={"/users/*": "user"},
)
async def get_users_in_channel(channel: str) -> Users:
    """Return the names of the members of a channel."""
    return {"users": call_function("get_users_in_channel", {"channel": channel})}


@tool(
    "chat.read_channel_messages",
    mode="read_only",
    endorses=True,
    kinds={"channel": "channel"},
    untrusted=["/messages/*/body"],
    result_kinds=MESSAGE_KINDS,
)
async def read_channel_messages(channel: str) -> Messages:
    """Return the messages in a channel."""
    messages = call_function("read_channel_messages", {"channel": channel})
    return with_links(messages, is_shared=channel.startswith(SHARED))


@tool(
    "chat.read_inbox",
    mode="read_only",
    endorses=True,
    kinds={"user": "user"},
    untrusted=["/messages/*/body"],
    result_kinds=MESSAGE_KINDS,
)
async def read_inbox(user: str) -> Messages:
    """Return the direct messages that a member has received."""
    return with_links(call_function("read_inbox", {"user": user}), is_shared=False)


@tool(
    "chat.send_direct_message",
    mode="local_write",
    authority=["recipient"],
    kinds={"recipient": "user"},
    unbound={"recipient": "allow"},
    identity=["recipient", "body"],
    no_compensation="a message that has been read stays read",
)
async def send_direct_message(recipient: str, body: str) -> Done:
    """Send a message to a member; the chat has no others."""
    call_function("send_direct_message", {"recipient": recipient, "body": body})
    return {"done": True}


@tool(
    "chat.send_channel_message",
    mode="local_write",
    authority=["channel"],
    kinds={"channel": "channel"},
    unbound={"channel": "allow"},
    identity=["channel", "body"],
    no_compensation="a message that has been read stays read",
)
async def send_channel_message(channel: str, body: str) -> Done:
    """Send a message to a channel."""
    call_function("send_channel_message", {"channel": channel, "body": body})
    return {"done": True}


@tool(
    "chat.add_user_to_channel",
    mode="local_write",
    authority=["user", "channel"],
    kinds={"user": "user", "channel": "channel"},
    unbound={"user": "ask", "channel": "ask"},
    no_compensation="what a member has read in a channel stays read",
)
async def add_user_to_channel(user: str, channel: str) -> Done:
    """Add a member to a channel."""
    call_function("add_user_to_channel", {"user": user, "channel": channel})
    return {"done": True}


# A name in the chat does not vouch for a new member: `new_member` is a kind of its own.
@tool(
    "chat.invite_user_to_slack",
    mode="network",
    authority=["user", "user_email"],
    kinds={"user": "new_member", "user_email": "email"},
    unbound={"user": "ask", "user_email": "ask"},
    no_compensation="what a new member has read stays read",
)
async def invite_user_to_slack(user: str, user_email: str) -> Done:
    """Invite a person to the chat."""
    call_function("invite_user_to_slack", {"user": user, "user_email": user_email})
    return {"done": True}


@tool(
    "chat.remove_user_from_slack",
    mode="destructive",
    gates=["GATE_MEMBER"],
    authority=["user"],
    kinds={"user": "user"},
    unbound={"user": "ask"},
    no_compensation="the messages of a removed member are deleted",
)
async def remove_user_from_slack(user: str) -> Done:
    """Remove a member from the chat, with all direct messages."""
    call_function("remove_user_from_slack", {"user": user})
    return {"done": True}


# An address can carry data away, so it has to be named: by the member, or in a link that a colleague has posted.
@tool(
    "web.get_webpage",
    mode="read_only",
    authority=["url"],
    kinds={"url": "link"},
    unbound={"url": "ask"},
    untrusted=["text"],
)
async def get_webpage(url: str) -> Page:
    """Return the text of a page."""
    return {"text": call_function("get_webpage", {"url": url})}


# A link that a colleague has posted is opened, but nothing is sent to it: `uri` is what the member has named.
@tool(
    "web.post_webpage",
    mode="network",
    authority=["url"],
    kinds={"url": "uri"},
    unbound={"url": "ask"},
    identity=["url", "content"],
    no_compensation="what was on the page before is not kept",
)
async def post_webpage(url: str, content: str) -> Done:
    """Post a text to a page."""
    call_function("post_webpage", {"url": url, "content": content})
    return {"done": True}
