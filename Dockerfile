# The demo project: the web server, and the worker with another command.
FROM python:3.13-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin pgqueue

WORKDIR /app

COPY pyproject.toml README.md LICENSE ./
COPY pgqueue_django ./pgqueue_django
RUN pip install ".[demo]"

COPY manage.py ./
COPY demo_project ./demo_project

USER pgqueue
EXPOSE 8000

# Exec form: gunicorn and the worker are process 1 and get the stop signal.
CMD ["gunicorn", "demo_project.wsgi:application", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "4", "--no-control-socket", "--access-logfile", "-"]
