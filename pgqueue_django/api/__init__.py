"""The HTTP API, for projects with Django REST framework.

Mount it with ``path("api/", include("pgqueue_django.api.urls"))``.

Who may use it. Every endpoint but ``healthz`` asks for a user with the model permission
that it names: ``pgqueue_django.add_job``, ``view_job`` or ``change_job``. Users are
authenticated by ``REST_FRAMEWORK["DEFAULT_AUTHENTICATION_CLASSES"]`` where the project
sets it; otherwise by token (if ``rest_framework.authtoken`` is installed), HTTP Basic
and session. Other defaults of ``REST_FRAMEWORK`` that could open, rename or reshape the
endpoints have no effect; throttling has. For other rules, subclass a view of
``pgqueue_django.api.views``, set its ``authentication_classes`` or
``permission_classes``, and put it into URLs of your own.

Every error is a JSON object with ``code`` (for programs) and ``detail`` (for people);
``invalid`` comes with ``errors``, a list of messages for each wrong field by its path.
"""
