"""A list of jobs that a table of any size cannot make slow."""

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.utils import OperationalError
from django.http import HttpRequest
from django.utils.functional import cached_property

from pgqueue_django.db.bounded import at_most, was_cancelled

# Generic for type checkers only.
if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator

# Nobody leafs through more pages than these make.
COUNTED_AT_MOST: Final = 10_000

# A count that takes longer is left out; a page that takes longer is given up.
COUNT_SECONDS: Final = 0.25
PAGE_SECONDS: Final = 5.0


class CappedPaginator(AnyPaginator):
    """Counts up to a limit and for a short time.

    Where it gets no count in time, it goes on as if the limit were reached.
    """

    in_time = True

    @cached_property
    def count(self) -> int:
        """The number of jobs, or the limit."""
        jobs = self._jobs()
        try:
            with at_most(COUNT_SECONDS, using=jobs.db):
                return jobs.order_by()[:COUNTED_AT_MOST].count()
        except OperationalError as error:
            if not was_cancelled(error):
                raise
            self.in_time = False
            return COUNTED_AT_MOST

    def _jobs(self) -> QuerySet[Any]:
        jobs = self.object_list
        assert isinstance(jobs, QuerySet)  # noqa: S101 - the admin lists querysets
        return jobs


class JobChangeList(ChangeList):
    """The admin's list, with a limit to what it counts and to how long it looks."""

    capped = False
    """Whether there may be more jobs than were counted."""

    gave_up = False
    """Whether the page took too long, so that it is empty."""

    def get_results(self, request: HttpRequest) -> None:
        """Read one page."""
        try:
            self._read(request)
        except OperationalError as error:
            if not was_cancelled(error):
                raise
            self.gave_up = True
            self.queryset = self.queryset.none()
            super().get_results(request)

    def _read(self, request: HttpRequest) -> None:
        with at_most(PAGE_SECONDS, using=self.queryset.db):
            super().get_results(request)
            self.result_list = list(self.result_list)
        self.capped = self.result_count >= COUNTED_AT_MOST
        if self._is_all_there_is():
            self.capped = self.multi_page = False
            self.result_count = len(self.result_list)

    def _is_all_there_is(self) -> bool:
        counted = getattr(self.paginator, "in_time", True)
        return (
            not counted
            and self.page_num == 1
            and len(self.result_list) < self.list_per_page
        )
