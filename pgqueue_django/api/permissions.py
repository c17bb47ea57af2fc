"""Who may use an endpoint."""

from typing import Any

from django.apps import apps
from rest_framework.authentication import (
    BaseAuthentication,
    BasicAuthentication,
    SessionAuthentication,
    TokenAuthentication,
)
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.views import APIView


def authentication_classes() -> list[type[BaseAuthentication]]:
    """Return the project's authentication classes, or else token, Basic and session.

    Token and Basic come first, so that nobody's request is answered with 401 and how to
    do better, where session alone would say 403.
    """
    if "DEFAULT_AUTHENTICATION_CLASSES" in api_settings.user_settings:
        classes: Any = api_settings.DEFAULT_AUTHENTICATION_CLASSES
        return list(classes)
    if apps.is_installed("rest_framework.authtoken"):
        return [TokenAuthentication, BasicAuthentication, SessionAuthentication]
    return [BasicAuthentication, SessionAuthentication]


class HasJobPermission(BasePermission):
    """Lets in users who have the model permission that the view names."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Tell whether the user has ``view.required_permission``."""
        user: Any = request.user
        required: str = view.required_permission  # type: ignore[attr-defined]
        return bool(user and user.is_authenticated and user.has_perm(required))
