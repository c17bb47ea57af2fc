"""The endpoints about jobs."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, TypeVar

from django.db import DataError, OperationalError
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from pgqueue_django.api.errors import Busy, InvalidRequest, LengthRequired, answer_to
from pgqueue_django.api.fields import as_object, read_fields, unknown
from pgqueue_django.api.parsers import StrictJSONParser
from pgqueue_django.api.permissions import HasJobPermission, authentication_classes
from pgqueue_django.api.representation import as_json
from pgqueue_django.api.transactions import outside_transactions
from pgqueue_django.compat import InvalidTask
from pgqueue_django.db.bounded import at_most, is_to_be_repeated, was_cancelled
from pgqueue_django.enqueuing import enqueue
from pgqueue_django.exceptions import InvalidJob, JobFinished, JobNotFound
from pgqueue_django.managers.job_details import JobDetails
from pgqueue_django.models import Job
from pgqueue_django.results import JobResult
from pgqueue_django.stats.jobs import database, describe, parse_id

T = TypeVar("T")

# Under REPEATABLE READ each loser of a race on one key or row must begin again.
_TRIES: Final = 5

# How long a request waits for a row that somebody has locked.
_LOCK_SECONDS: Final = 2.0


class AlwaysJSON(BaseContentNegotiation):
    """Answers JSON whatever is accepted, so that errors are never of another form."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> Any:
        """Return the parser, if the request has its media type."""
        content_type = (request.content_type or "").partition(";")[0].strip().lower()
        matching = (each for each in parsers if each.media_type == content_type)
        return next(matching, None)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002 - the signature is DRF's
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer."""
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


class QueueView(APIView):
    """What the endpoints share: closed by default, strict JSON, one form of errors.

    Subclasses in a project may set ``authentication_classes`` and
    ``permission_classes``.
    """

    required_permission: ClassVar[str] = "pgqueue_django.change_job"

    authentication_classes = authentication_classes()
    permission_classes = (HasJobPermission,)
    parser_classes = (StrictJSONParser,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = AlwaysJSON
    versioning_class = None
    metadata_class = None  # OPTIONS is answered with 405

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """Return the view, which runs in no transaction of the request's."""
        return outside_transactions(super().as_view(**initkwargs))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what no endpoint takes, once the user is known and may be here."""
        super().initial(request, *args, **kwargs)
        if "HTTP_TRANSFER_ENCODING" in request.META:
            raise LengthRequired
        if errors := unknown(request.query_params, ()):
            raise InvalidRequest(errors)

    def perform_authentication(self, request: Request) -> None:
        """Find the user; credentials that nothing can be looked up by are wrong."""
        try:
            super().perform_authentication(request)
        except (ValueError, DataError):  # A NUL, which no column can hold.
            raise AuthenticationFailed from None

    def get_exception_handler(self) -> Any:
        """Return this API's own, whatever the project's."""
        return answer_to


class JobsView(QueueView):
    """``POST /jobs``: enqueue a job.

    The body has ``task`` (the name of a registered task) and at will ``payload`` (its
    keyword arguments), ``queue``, ``priority``, ``max_attempts``, ``delay_seconds`` or
    ``run_at`` (ISO 8601 with an offset), ``idempotency_key`` and ``unique_key``. What
    is left out has the task's own default. The last four also take null for "none".

    Answers 201 with the job and its ``Location``. When the idempotency key has a job in
    that queue already, whoever enqueued it, until it is pruned: 200 with
    ``replayed: true`` and the job as it is now, if its task and payload are the same
    (other fields do not count); 422 (``idempotency_conflict``, with ``job_id``) if they
    are not. When the unique key has a live job there, whatever that runs: 200 with it.
    """

    required_permission = "pgqueue_django.add_job"

    def post(self, request: Request) -> Response:
        """Enqueue a job."""
        result = _enqueue(read_fields(request.data))
        job = _found(result.job_id)
        body = {**as_json(job), "replayed": result.replayed}
        if result.replayed:
            return Response(body)
        return Response(body, status=201, headers={"Location": _url(request, job.id)})


class JobView(QueueView):
    """``GET /jobs/{id}``: a job as it is now."""

    required_permission = "pgqueue_django.view_job"

    def get(self, request: Request, job_id: str) -> Response:  # noqa: ARG002
        """Show the job."""
        return Response(as_json(_found(_parsed(job_id))))


class CancelView(QueueView):
    """``POST /jobs/{id}/cancel``: end a job that has not finished, running or not.

    A running handler hears of it, and what it returns is not kept. Answers 200 with the
    job, 409 (``already_finished``) when it had finished, 503 (``busy``) when another
    transaction keeps it locked.
    """

    required_permission = "pgqueue_django.change_job"

    def post(self, request: Request, job_id: str) -> Response:
        """Cancel the job."""
        id_ = _parsed(job_id)
        if errors := unknown(as_object(request.data), ()):
            raise InvalidRequest(errors)
        return Response(as_json(_cancelled(id_)))


def _enqueue(values: dict[str, Any]) -> JobResult[Any]:
    task, payload = values.pop("task"), values.pop("payload", {})
    if "delay_seconds" in values:
        values["delay"] = values.pop("delay_seconds")
    try:
        return _repeated(lambda: enqueue(task, (), payload, **values))
    except InvalidTask as error:
        # Of what read_fields() leaves open, only the backend's QUEUES are the caller's.
        field = "queue" if "queue" in str(error).lower() else "task"
        raise InvalidRequest({field: [str(error)]}) from None
    except InvalidJob as error:
        raise InvalidRequest.of(error) from None


def _cancelled(id_: int) -> JobDetails:
    if not _repeated(lambda: _cancel(id_)):
        job = _found(id_)
        raise JobFinished(f"Job {id_} has finished: it is {job.state}.")
    return _found(id_)


def _cancel(id_: int) -> bool:
    alias = database()
    try:
        with at_most(_LOCK_SECONDS, using=alias):
            return Job.objects.db_manager(alias).cancel(id_)
    except OperationalError as error:
        if was_cancelled(error):
            raise Busy from None
        raise


def _repeated(transaction: Callable[[], T]) -> T:
    for _ in range(_TRIES - 1):
        try:
            return transaction()
        except OperationalError as error:
            if not is_to_be_repeated(error):
                raise
    return transaction()


def _parsed(job_id: str) -> int:
    id_ = parse_id(job_id)
    if id_ is None:
        raise JobNotFound("No job has that id.")
    return id_


def _found(id_: int) -> JobDetails:
    job = describe(id_)
    if job is None:
        raise JobNotFound(f"No job has the id {id_}.")
    return job


def _url(request: Request, id_: int) -> str:
    match = request.resolver_match
    name = f"{match.namespace}:job" if match and match.namespace else "job"
    return reverse(name, kwargs={"job_id": id_}, request=None)
