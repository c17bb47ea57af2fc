"""Tasks that end in every way but the right one."""

from pgqueue_django import task


@task
def value_error() -> None:
    raise ValueError("a wrong value")


@task
def exits() -> None:
    raise SystemExit(1)


@task
def interrupted() -> None:
    raise KeyboardInterrupt


@task
def of_another_type() -> object:
    return object()


@task
def complex_error() -> None:
    try:
        dict[str, int]()["missing"]
    except KeyError as error:
        raise ValueError(ValueError("inner", object()), {1}) from error
