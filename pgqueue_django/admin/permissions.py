"""Who may do what in the admin."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

# Generic for type checkers only.
if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
else:
    AnyModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(AnyModelAdmin):
    """Nothing can be added, changed or deleted; who may change jobs may cancel them."""

    def has_add_permission(
        self,
        request: HttpRequest,  # noqa: ARG002 - the signatures are Django's
    ) -> bool:
        """Leave it to code and the HTTP API."""
        return False

    def has_change_permission(
        self,
        request: HttpRequest,  # noqa: ARG002
        obj: Any = None,  # noqa: ARG002
    ) -> bool:
        """Refuse to edit fields; see ``has_cancel_permission``."""
        return False

    def has_delete_permission(
        self,
        request: HttpRequest,  # noqa: ARG002
        obj: Any = None,  # noqa: ARG002
    ) -> bool:
        """Leave it to the pruner."""
        return False

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may change jobs."""
        return super().has_change_permission(request)
