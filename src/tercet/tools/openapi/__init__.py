"""OpenAPI: what the description of an HTTP service says about its operations, turned into tools.

A description is a file of the pack. It is never fetched, and nothing that it refers to is either.
"""

from tercet.tools.http.service import Auth, Operation, Service
from tercet.tools.openapi.calling import make_tool, openapi_tools
from tercet.tools.openapi.document import Document, OpenApiError, read_document

__all__ = [
    "Auth",
    "Document",
    "OpenApiError",
    "Operation",
    "Service",
    "make_tool",
    "openapi_tools",
    "read_document",
]
