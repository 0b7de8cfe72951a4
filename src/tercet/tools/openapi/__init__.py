"""OpenAPI: turns the operations in the description of an HTTP service into tools.

A description is a file of the pack. Neither it nor anything that it refers to is ever fetched.
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
